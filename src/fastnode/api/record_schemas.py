"""The records that methods answer with, as types (see api/schema_language.py) and as JSON schemas.

Those that the protocol knows are tables there (protocol/records.py), and so are those that the chain puts together of
stored parts (archiver/forms.py); the others are written here, once.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.api.node_info import members_text
from fastnode.api.schema_language import schema_of
from fastnode.archiver import forms
from fastnode.config.config_keys import FIVE
from fastnode.config.configuration import configuration_schema
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    Checkpoint,
    CheckpointHeader,
    CommitteeAttestation,
    L1PublishedData,
    PublishedCheckpoint,
)
from fastnode.protocol.contracts import ContractClassPublic, ContractInstance, HashedPublicKeys, PublicKeys
from fastnode.protocol.effects import Body, ContractClassLog, PrivateLog, PublicDataWrite, PublicLog, TxEffect
from fastnode.protocol.header import (
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    PartialStateReference,
    StateReference,
)
from fastnode.protocol.records import Record
from fastnode.protocol.tips import BlockId, L2Tips, TipId
from fastnode.values.schemas import Schema

__all__ = ["components"]


def _hex(digits: int) -> Schema:
    return {"type": "string", "pattern": f"^0x[0-9a-f]{{{digits}}}$"}


_BASE64: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}
_NATURAL: Final[Schema] = {"type": "integer", "minimum": 0}

#: Schemas of the scalar types.
SCALARS: Final[dict[str, Schema]] = {
    "Fr": {**_hex(64), "description": "A field element: 32 bytes, big-endian."},
    "EthAddress": _hex(40),
    "FunctionSelector": _hex(8),
    "Signature": {
        "type": "string",
        "pattern": "^0x[0-9a-f]{129,130}$",
        "description": "r, s and v of a signature; v has one digit, 0, where there is none.",
    },
    "PublicKey": {**_hex(128), "description": "x and y of a point."},
    "number": _NATURAL,
    "bigint": {"type": "string", "pattern": "^-?[0-9]+$", "description": "An integer of any size as decimal text."},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "float": {"type": "number"},
    "void": {"type": "null", "description": "Nothing is returned."},
    "any": {},
    "bytes": {**_BASE64, "description": "Bytes in base64."},
    "SiblingPath": {**_BASE64, "description": "In base64: the length as u32 big-endian, then 32 bytes for each level."},
    "MembershipWitness": {
        **_BASE64,
        "description": "In base64: the leaf's index as 32 bytes big-endian, then 32 bytes for each level.",
    },
    "AztecNodeAdminConfig": configuration_schema(),
    "AztecNodeAdminConfigV5": configuration_schema(FIVE),
    "ValidatorsByAddress": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/ValidatorStats"}},
}


#: Records of the protocol.
_TABLES: Final[tuple[type[Record], ...]] = (
    AppendOnlyTreeSnapshot,
    StateReference,
    PartialStateReference,
    GasFees,
    GlobalVariables,
    BlockHeader,
    Body,
    L2Block,
    L1PublishedData,
    CommitteeAttestation,
    CheckpointHeader,
    Checkpoint,
    PublishedCheckpoint,
    BlockId,
    TipId,
    L2Tips,
    PublicDataWrite,
    PrivateLog,
    PublicLog,
    ContractClassLog,
    TxEffect,
    ContractClassPublic,
    PublicKeys,
    HashedPublicKeys,
    ContractInstance,
)

#: Words about members, by the names of record and member.
DOCS: Final[dict[str, dict[str, str]]] = {table.schema_name(): table.docs() for table in _TABLES}

#: Members in the order in which they are written.
RECORDS: Final[dict[str, str]] = {
    **{table.schema_name(): table.type_text() for table in _TABLES},
    **{name: forms.type_text(table) for name, table in forms.TABLES.items()},
    # ---- blocks and checkpoints
    "L1PublishInfo": "{published: boolean, blockNumber?: bigint, timestamp?: bigint, blockHash?: Fr}",
    "ChainTips": "{proposed: BlockId, checkpointed: TipId, proven: TipId, finalized: TipId}",
    # ---- transactions
    "Tx": "{txHash?: Fr, data: bytes, chonkProof: bytes, contractClassLogFields: {fields: Fr[]}[], "
    "publicFunctionCalldata: {values: Fr[], hash: Fr}[]}",
    "TxValidationResult": '{result: "valid"|"invalid"|"skipped", reason?: string[]}',
    "Gas": "{daGas: number, l2Gas: number}",
    # Each of `nested` is again such a record: tools that put schemas in the place of their names would never end.
    "NestedProcessReturnValues": "{values?: Fr[], nested: any[]}",
    "PublicSimulationOutput": "{revertReason?: any, globalVariables: GlobalVariables, txEffect: TxEffect, "
    "publicReturnValues: NestedProcessReturnValues[], "
    "gasUsed: {totalGas: Gas, teardownGas: Gas, publicGas: Gas, billedGas: Gas}, debugLogs?: any[]}",
    "FeeOfTrace": "{payer: Fr, feePerDaGas: bigint, feePerL2Gas: bigint, daFee: bigint, l2Fee: bigint, "
    "transactionFee: bigint}",
    "GasOfTrace": "{totalGas: Gas, teardownGas: Gas, publicGas: Gas, billedGas: Gas, "
    "phases: {private: Gas, setup: Gas, app: Gas, teardown: Gas}}",
    "TracedStep": "{call: number, pc: number, operation: string, l2GasLeft: number, daGasLeft: number, l2Gas: number, "
    "daGas: number, memory: number[]}",
    # Each of `entries` may again be such a call: see above.
    "TracedCall": '{phase: "setup"|"app"|"teardown", contractAddress: Fr, msgSender: Fr, isStaticCall: boolean, '
    "functionSelector: FunctionSelector|null, contractName?: string, functionName?: string, "
    "arguments?: NamedValue[], returnValue?: any, assertion?: string, number: number|null, calldata: Fr[], "
    "calldataFields: number, gasLimit: Gas, gasUsed: Gas, success: boolean, returnData: Fr[], message?: string, "
    "pcs?: number[], entries: any[]}",
    "TransactionTrace": '{txHash: Fr, status: "mined"|"pending"|"simulated", blockNumber: number, blockHash?: Fr, '
    'txIndexInBlock?: number, source?: "pool"|"kept"|"upstream"|"peers"|"request", missing?: string, '
    "effect: TxEffect, revertCode?: number, gas?: GasOfTrace, fee?: FeeOfTrace, revertReason?: any, "
    "isTruncated?: boolean, steps?: {first: number, taken: number, list: TracedStep[]}, "
    "gasProfile?: {l2: string[], da: string[]}, calls?: TracedCall[]}",
    # ---- trees
    "DataInBlock": "{l2BlockNumber: number, l2BlockHash: Fr, data: bigint}",
    "NullifierMembershipWitness": "{index: bigint, leafPreimage: {leaf: {nullifier: Fr}, nextKey: Fr, "
    "nextIndex: bigint}, siblingPath: SiblingPath}",
    "PublicDataWitness": "{index: bigint, leafPreimage: {leaf: {slot: Fr, value: Fr}, nextKey: Fr, "
    "nextIndex: bigint}, siblingPath: SiblingPath}",
    "L2ToL1MembershipWitness": "{epochNumber: number, numCheckpointsInEpoch: number, root: Fr, leafIndex: bigint, "
    "siblingPath: SiblingPath}",
    "TxEffectMembershipWitness": "{blockNumber: number, root: Fr, categoriesHash: Fr, leafIndex: bigint, "
    "siblingPath: SiblingPath}",
    "WorldStateSyncStatus": "{latestBlockNumber: number, latestBlockHash: Fr, finalizedBlockNumber: number, "
    "oldestHistoricBlockNumber: number, treesAreSynched: boolean}",
    # ---- logs and contracts
    "LogId": "{blockNumber: number, blockHash: Fr, txHash: Fr, txIndex: number, logIndex: number}",
    "TxScopedL2Log": "{txHash: Fr, blockNumber: number, blockTimestamp: bigint, logData: Fr[], noteHashes: Fr[], "
    "firstNullifier: Fr}",
    "LogResult": "{logData: Fr[], blockNumber: number, blockHash: Fr, blockTimestamp: bigint, txHash: Fr, "
    "txIndexWithinBlock: number, logIndexWithinTx: number, noteHashes?: Fr[], nullifiers?: Fr[]}",
    "GetPublicLogsResponse": "{logs: {id: LogId, log: PublicLog}[], maxLogsHit: boolean}",
    "RegisteredArtifact": "{classId: Fr, name: string, functions: number, events: number, slots: number, "
    "assertions: number}",
    "NamedValue": "{name: string, value: any}",
    "GetPublicEventsResponse": "{logs: {id: LogId, log: PublicLog, contractName?: string, eventName?: string, "
    "arguments?: NamedValue[]}[], maxLogsHit: boolean}",
    "GetContractClassLogsResponse": "{logs: {id: LogId, log: ContractClassLog}[], maxLogsHit: boolean}",
    "AllowedElement": "{address?: Fr, classId?: Fr, selector: FunctionSelector, calldataLength?: number, "
    "onlySelf?: boolean, rejectNullMsgSender?: boolean}",
    # ---- the network and the node
    "L1ContractAddresses": "{registryAddress: EthAddress, slashFactoryAddress?: EthAddress, "
    "feeAssetHandlerAddress?: EthAddress, rollupAddress: EthAddress, inboxAddress: EthAddress, "
    "outboxAddress: EthAddress, feeJuiceAddress: EthAddress, stakingAssetAddress: EthAddress, "
    "feeJuicePortalAddress: EthAddress, coinIssuerAddress: EthAddress, rewardDistributorAddress: EthAddress, "
    "governanceProposerAddress: EthAddress, governanceAddress: EthAddress, stakingAssetHandlerAddress?: EthAddress, "
    "zkPassportVerifierAddress?: EthAddress, gseAddress?: EthAddress, dateGatedRelayerAddress?: EthAddress}",
    "ProtocolContractAddresses": "{classRegistry: Fr, feeJuice: Fr, instanceRegistry: Fr, multiCallEntrypoint: Fr}",
    "NodeInfo": f"{{nodeVersion: string, l1ChainId: number, rollupVersion: number, {members_text()}"
    "l1ContractAddresses: L1ContractAddresses, protocolContractAddresses: ProtocolContractAddresses, "
    "realProofs: boolean, txsLimits?: {gas: Gas}}",
    "L1RollupConstants": "{l1StartBlock: bigint, l1GenesisTime: bigint, slotDuration: number, epochDuration: number, "
    "ethereumSlotDuration: number, proofSubmissionEpochs: number, targetCommitteeSize: number, "
    "rollupManaLimit: number}",
    "PeerInfo": '{status: "connected"|"dialing"|"cached", id: string, score?: float, dialStatus?: string, '
    "addresses?: string[], enr?: string, dialAttempts?: number}",
    "CheckpointAttestation": "{payload: {header: CheckpointHeader, archive: Fr, feeAssetPriceModifier: bigint, "
    "signatureContext: {chainId: number, rollupAddress: EthAddress}}, signature: Signature, "
    "proposerSignature: Signature}",
    "ProposalsForSlot": "{blockProposals: bytes[], checkpointProposals: bytes[]}",
    "ChainRecord": "{kind?: string, version?: number, nodeInfo: NodeInfo, l1Constants: any, minFees?: any}",
    "GenesisRecord": "{kind?: string, header: BlockHeader, blockHash: Fr, archiveRoot: Fr, "
    "prefilledPublicData: {slot: Fr, value: Fr}[], contractClasses: any[], contractInstances: any[]}",
    "SyncStatus": '{state: "serving"|"catching up"|"following"|"degraded"|"paused", reason: string|null, '
    "tip: number, sourceTip?: number|null, lagBlocks?: number|null, "
    "catchingUp?: {blocksPerSecond: float, etaSeconds: number|null}|null, isReady: boolean, "
    "noTransactions: string|null, isSampleChain: boolean, fastnodeVersion: string, reorgs?: number, "
    "isCanonical?: boolean|null, canonicalRollup?: EthAddress|null, "
    "lastPassAt?: number|null, unconfirmedFromCheckpoint?: number|null, upstreams: any[], l1?: any}",
    # ---- validators
    "TimeStat": "{timestamp: bigint, slot: number, date: string}",
    "MissedStat": "{currentStreak: number, rate?: float, count: number, total: number}",
    "ValidatorStats": "{address: EthAddress, lastProposal?: TimeStat, lastAttestation?: TimeStat, "
    "totalSlots: number, missedProposals: MissedStat, missedAttestations: MissedStat, "
    "history: {slot: number, status: string}[]}",
    "ValidatorsStats": "{stats: ValidatorsByAddress, lastProcessedSlot?: number, initialSlot?: number, "
    "slotWindow: number}",
    "SingleValidatorStats": "{validator: ValidatorStats, allTimeProvenPerformance: {missed: number, total: number, "
    "epoch: number}[], lastProcessedSlot?: number, initialSlot?: number, slotWindow: number}",
    "EpochValidatorStats": "{validator: ValidatorStats, allTimeEpochPerformance: {missed: number, total: number, "
    "epoch: number}[], lastProcessedSlot?: number, initialSlot?: number, slotWindow: number}",
    "Offense": "{validator: EthAddress, amount: bigint, offenseType: number, epochOrSlot: bigint}",
    "SlashPayloadRound": "{address: EthAddress, timestamp: bigint, votes: bigint, round: bigint, "
    "slashes: {validator: EthAddress, amount: bigint, offenses: {offenseType: number, epochOrSlot: bigint}[]}[]}",
}


def components() -> dict[str, Any]:
    """Every named schema, with its name as the title."""
    schemas = {**SCALARS, **{name: schema_of(text) for name, text in RECORDS.items()}}
    return {name: {"title": name, **schema} for name, schema in schemas.items()}
