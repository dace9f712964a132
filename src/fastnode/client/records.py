# Made by scripts/make-docs from the method table: change that instead.
"""Answers of a node, as they stand in JSON.  A key that is NotRequired may be absent."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

#: 0x and 64 hex digits.
Fr: TypeAlias = str
#: 0x and 40 hex digits.
EthAddress: TypeAlias = str
#: An integer of any size in decimal digits.
BigInt: TypeAlias = str
Base64: TypeAlias = str


class AllowedElement(TypedDict):
    address: NotRequired[Fr]
    classId: NotRequired[Fr]
    selector: str
    calldataLength: NotRequired[int]
    onlySelf: NotRequired[bool]
    rejectNullMsgSender: NotRequired[bool]


class AppendOnlyTreeSnapshot(TypedDict):
    root: Fr
    #: Number of leaves.
    nextAvailableLeafIndex: int


class BlockData(TypedDict):
    header: BlockHeader
    archive: AppendOnlyTreeSnapshot
    blockHash: Fr
    checkpointNumber: int
    indexWithinCheckpoint: int


class BlockHeader(TypedDict):
    #: Archive tree before the block.
    lastArchive: AppendOnlyTreeSnapshot
    #: State trees after the block.
    state: StateReference
    #: Hash of the data that the checkpoint has published up to this block.
    spongeBlobHash: Fr
    #: Root over the effects of its transactions, from release 6.x on.
    txEffectsTreeRoot: NotRequired[Fr]
    globalVariables: GlobalVariables
    #: Sum of the fees of its transactions.
    totalFees: Fr
    #: L2 gas that its transactions have used.
    totalManaUsed: Fr


class BlockId(TypedDict):
    number: int
    hash: Fr


class BlockResponse(TypedDict):
    header: BlockHeader
    archive: AppendOnlyTreeSnapshot
    hash: Fr
    checkpointNumber: int
    indexWithinCheckpoint: int
    number: int
    body: NotRequired[Body]
    l1: NotRequired[L1PublishInfo]
    attestations: NotRequired[list[CommitteeAttestation]]


class Body(TypedDict):
    txEffects: list[TxEffect]


class ChainRecord(TypedDict):
    kind: NotRequired[str]
    version: NotRequired[int]
    nodeInfo: NodeInfo
    l1Constants: Any
    minFees: NotRequired[Any]


class ChainTips(TypedDict):
    proposed: BlockId
    checkpointed: TipId
    proven: TipId
    finalized: TipId


class Checkpoint(TypedDict):
    #: Archive tree after the last of its blocks.
    archive: AppendOnlyTreeSnapshot
    header: CheckpointHeader
    blocks: list[L2Block]
    number: int
    feeAssetPriceModifier: BigInt


class CheckpointAttestationPayloadSignatureContext(TypedDict):
    chainId: int
    rollupAddress: EthAddress


class CheckpointAttestationPayload(TypedDict):
    header: CheckpointHeader
    archive: Fr
    feeAssetPriceModifier: BigInt
    signatureContext: CheckpointAttestationPayloadSignatureContext


class CheckpointAttestation(TypedDict):
    payload: CheckpointAttestationPayload
    signature: str
    proposerSignature: str


class CheckpointData(TypedDict):
    header: CheckpointHeader
    archive: AppendOnlyTreeSnapshot
    checkpointOutHash: Fr
    checkpointNumber: int
    startBlock: int
    blockCount: int
    feeAssetPriceModifier: NotRequired[BigInt]
    l1: L1PublishedData
    attestations: list[CommitteeAttestation]


class CheckpointHeader(TypedDict):
    #: Root of the archive before the checkpoint.
    lastArchiveRoot: Fr
    #: Root over the hashes of its blocks.
    blockHeadersHash: Fr
    blobsHash: Fr
    #: Root over the messages from L1 that it inserts.
    inHash: NotRequired[Fr]
    #: Rolling hash of the Inbox after the last message that it inserts.
    inboxRollingHash: NotRequired[Fr]
    #: Root over the messages to L1 of the epoch up to it.
    epochOutHash: Fr
    slotNumber: int
    #: Seconds since 1970.
    timestamp: BigInt
    #: L1 address that is paid.
    coinbase: EthAddress
    #: L2 address that receives the fees.
    feeRecipient: Fr
    gasFees: GasFees
    totalManaUsed: Fr
    #: Fees of its blocks, from release 5.x on.
    accumulatedFees: NotRequired[Fr]


class CheckpointResponse(TypedDict):
    number: int
    header: CheckpointHeader
    archive: AppendOnlyTreeSnapshot
    checkpointOutHash: Fr
    startBlock: int
    blockCount: int
    feeAssetPriceModifier: BigInt
    blocks: NotRequired[list[BlockResponse]]
    l1: NotRequired[L1PublishInfo]
    attestations: NotRequired[list[CommitteeAttestation]]


class CheckpointedL2Block(TypedDict):
    checkpointNumber: int
    block: L2Block
    l1: L1PublishedData
    attestations: list[CommitteeAttestation]


class CommitteeAttestation(TypedDict):
    address: EthAddress
    #: r 32, s 32, v 1; all zero when it did not sign.
    signature: str


class ContractClassLogField(TypedDict):
    fields: list[Fr]


class ContractClassLog(TypedDict):
    #: Contract that emitted it: the class registry.
    contractAddress: Fr
    #: Padded with zeros.
    fields: ContractClassLogField
    emittedLength: int


class ContractClassPublic(TypedDict):
    #: Block that published it, 0 at genesis.
    l2BlockNumber: NotRequired[int]
    version: int
    artifactHash: Fr
    #: Passed on as they came; networks of release 4 leave them empty.
    privateFunctions: list[Any]
    utilityFunctions: list[Any]
    packedBytecode: Base64
    privateFunctionsRoot: Fr
    id: Fr


class ContractInstanceWithAddress(TypedDict):
    version: int
    salt: Fr
    deployer: Fr
    #: Changes with updates.
    currentContractClassId: Fr
    #: The one that the address commits to.
    originalContractClassId: Fr
    initializationHash: Fr
    #: In version 2.
    immutablesHash: NotRequired[Fr]
    publicKeys: PublicKeys | HashedPublicKeys
    address: Fr


class DataInBlock(TypedDict):
    l2BlockNumber: int
    l2BlockHash: Fr
    data: BigInt


class DroppedTxReceipt(TypedDict):
    txHash: Fr
    status: Literal["dropped"]
    error: NotRequired[str]


class EpochValidatorStatsAllTimeEpochPerformance(TypedDict):
    missed: int
    total: int
    epoch: int


class EpochValidatorStats(TypedDict):
    validator: ValidatorStats
    allTimeEpochPerformance: list[EpochValidatorStatsAllTimeEpochPerformance]
    lastProcessedSlot: NotRequired[int]
    initialSlot: NotRequired[int]
    slotWindow: int


class FeeOfTrace(TypedDict):
    payer: Fr
    feePerDaGas: BigInt
    feePerL2Gas: BigInt
    daFee: BigInt
    l2Fee: BigInt
    transactionFee: BigInt


class Gas(TypedDict):
    daGas: int
    l2Gas: int


class GasFees(TypedDict):
    #: Price of one unit of gas for data.
    feePerDaGas: BigInt
    #: Price of one unit of gas for execution.
    feePerL2Gas: BigInt


class GasOfTracePhase(TypedDict):
    private: Gas
    setup: Gas
    app: Gas
    teardown: Gas


class GasOfTrace(TypedDict):
    totalGas: Gas
    teardownGas: Gas
    publicGas: Gas
    billedGas: Gas
    phases: GasOfTracePhase


class GenesisRecordPrefilledPublicData(TypedDict):
    slot: Fr
    value: Fr


class GenesisRecord(TypedDict):
    kind: NotRequired[str]
    header: BlockHeader
    blockHash: Fr
    archiveRoot: Fr
    prefilledPublicData: list[GenesisRecordPrefilledPublicData]
    contractClasses: list[Any]
    contractInstances: list[Any]


class GetContractClassLogsResponseLog(TypedDict):
    id: LogId
    log: ContractClassLog


class GetContractClassLogsResponse(TypedDict):
    logs: list[GetContractClassLogsResponseLog]
    maxLogsHit: bool


class GetPublicEventsResponseLog(TypedDict):
    id: LogId
    log: PublicLog
    contractName: NotRequired[str]
    eventName: NotRequired[str]
    arguments: NotRequired[list[NamedValue]]


class GetPublicEventsResponse(TypedDict):
    logs: list[GetPublicEventsResponseLog]
    maxLogsHit: bool


class GetPublicLogsResponseLog(TypedDict):
    id: LogId
    log: PublicLog


class GetPublicLogsResponse(TypedDict):
    logs: list[GetPublicLogsResponseLog]
    maxLogsHit: bool


class GlobalVariables(TypedDict):
    #: Chain id of L1.
    chainId: Fr
    #: Version of the rollup.
    version: Fr
    blockNumber: int
    slotNumber: Fr
    #: Seconds since 1970.
    timestamp: BigInt
    #: L1 address that is paid for the block.
    coinbase: EthAddress
    #: L2 address that receives the fees.
    feeRecipient: Fr
    gasFees: GasFees


class HashedPublicKeys(TypedDict):
    npkMHash: Fr
    ivpkM: str
    ovpkMHash: Fr
    tpkMHash: Fr
    mspkMHash: Fr
    fbpkMHash: Fr


class IndexedTxEffect(TypedDict):
    l2BlockHash: Fr
    l2BlockNumber: int
    txIndexInBlock: int
    data: TxEffect
    slotNumber: NotRequired[int]


class L1ContractAddresses(TypedDict):
    registryAddress: EthAddress
    slashFactoryAddress: NotRequired[EthAddress]
    feeAssetHandlerAddress: NotRequired[EthAddress]
    rollupAddress: EthAddress
    inboxAddress: EthAddress
    outboxAddress: EthAddress
    feeJuiceAddress: EthAddress
    stakingAssetAddress: EthAddress
    feeJuicePortalAddress: EthAddress
    coinIssuerAddress: EthAddress
    rewardDistributorAddress: EthAddress
    governanceProposerAddress: EthAddress
    governanceAddress: EthAddress
    stakingAssetHandlerAddress: NotRequired[EthAddress]
    zkPassportVerifierAddress: NotRequired[EthAddress]
    gseAddress: NotRequired[EthAddress]
    dateGatedRelayerAddress: NotRequired[EthAddress]


class L1PublishInfo(TypedDict):
    published: bool
    blockNumber: NotRequired[BigInt]
    timestamp: NotRequired[BigInt]
    blockHash: NotRequired[Fr]


class L1PublishedData(TypedDict):
    blockNumber: BigInt
    #: Seconds since 1970.
    timestamp: BigInt
    #: Hash of a block of L1, not a field element.
    blockHash: Fr


class L1RollupConstants(TypedDict):
    l1StartBlock: BigInt
    l1GenesisTime: BigInt
    slotDuration: int
    epochDuration: int
    ethereumSlotDuration: int
    proofSubmissionEpochs: int
    targetCommitteeSize: int
    rollupManaLimit: int


class L2Block(TypedDict):
    #: Archive tree after the block: its size is the number + 1.
    archive: AppendOnlyTreeSnapshot
    header: BlockHeader
    body: Body
    checkpointNumber: int
    indexWithinCheckpoint: int


class L2Tips(TypedDict):
    proposed: BlockId
    proven: TipId
    finalized: TipId
    checkpointed: TipId


class L2ToL1MembershipWitness(TypedDict):
    epochNumber: int
    numCheckpointsInEpoch: int
    root: Fr
    leafIndex: BigInt
    siblingPath: Base64


class LogId(TypedDict):
    blockNumber: int
    blockHash: Fr
    txHash: Fr
    txIndex: int
    logIndex: int


class LogResult(TypedDict):
    logData: list[Fr]
    blockNumber: int
    blockHash: Fr
    blockTimestamp: BigInt
    txHash: Fr
    txIndexWithinBlock: int
    logIndexWithinTx: int
    noteHashes: NotRequired[list[Fr]]
    nullifiers: NotRequired[list[Fr]]


class MinedTxReceipt(TypedDict):
    txHash: Fr
    status: Literal["proposed", "checkpointed", "proven", "finalized"]
    executionResult: Literal["success", "reverted"]
    transactionFee: BigInt
    blockHash: Fr
    blockNumber: int
    epochNumber: int
    slotNumber: int
    txIndexInBlock: int
    txEffect: NotRequired[TxEffect]
    debugLogs: NotRequired[list[Any]]


class MissedStat(TypedDict):
    currentStreak: int
    rate: NotRequired[float]
    count: int
    total: int


class NamedValue(TypedDict):
    name: str
    value: Any


class NestedProcessReturnValues(TypedDict):
    values: NotRequired[list[Fr]]
    nested: list[Any]


class NodeInfoTxsLimit(TypedDict):
    gas: Gas


class NodeInfo(TypedDict):
    nodeVersion: str
    l1ChainId: int
    rollupVersion: int
    enr: NotRequired[str]
    l1ContractAddresses: L1ContractAddresses
    protocolContractAddresses: ProtocolContractAddresses
    realProofs: bool
    txsLimits: NotRequired[NodeInfoTxsLimit]


class NullifierMembershipWitnessLeafPreimageLeaf(TypedDict):
    nullifier: Fr


class NullifierMembershipWitnessLeafPreimage(TypedDict):
    leaf: NullifierMembershipWitnessLeafPreimageLeaf
    nextKey: Fr
    nextIndex: BigInt


class NullifierMembershipWitness(TypedDict):
    index: BigInt
    leafPreimage: NullifierMembershipWitnessLeafPreimage
    siblingPath: Base64


class Offense(TypedDict):
    validator: EthAddress
    amount: BigInt
    offenseType: int
    epochOrSlot: BigInt


class PartialStateReference(TypedDict):
    noteHashTree: AppendOnlyTreeSnapshot
    nullifierTree: AppendOnlyTreeSnapshot
    publicDataTree: AppendOnlyTreeSnapshot


class PeerInfo(TypedDict):
    status: Literal["connected", "dialing", "cached"]
    id: str
    score: NotRequired[float]
    dialStatus: NotRequired[str]
    addresses: NotRequired[list[str]]
    enr: NotRequired[str]
    dialAttempts: NotRequired[int]


class PendingTxReceipt(TypedDict):
    txHash: Fr
    status: Literal["pending"]
    tx: NotRequired[Tx]


class PrivateLog(TypedDict):
    #: Padded with zeros.
    fields: list[Fr]
    emittedLength: int


class ProposalsForSlot(TypedDict):
    blockProposals: list[Base64]
    checkpointProposals: list[Base64]


class ProtocolContractAddresses(TypedDict):
    classRegistry: Fr
    feeJuice: Fr
    instanceRegistry: Fr
    multiCallEntrypoint: Fr


class PublicDataWitnessLeafPreimageLeaf(TypedDict):
    slot: Fr
    value: Fr


class PublicDataWitnessLeafPreimage(TypedDict):
    leaf: PublicDataWitnessLeafPreimageLeaf
    nextKey: Fr
    nextIndex: BigInt


class PublicDataWitness(TypedDict):
    index: BigInt
    leafPreimage: PublicDataWitnessLeafPreimage
    siblingPath: Base64


class PublicDataWrite(TypedDict):
    #: Slot, siloed by the contract.
    leafSlot: Fr
    value: Fr


class PublicKeys(TypedDict):
    masterNullifierPublicKey: str
    masterIncomingViewingPublicKey: str
    masterOutgoingViewingPublicKey: str
    masterTaggingPublicKey: str


class PublicLog(TypedDict):
    #: Contract that emitted them.
    contractAddress: Fr
    fields: list[Fr]


class PublicSimulationOutputGasUsed(TypedDict):
    totalGas: Gas
    teardownGas: Gas
    publicGas: Gas
    billedGas: Gas


class PublicSimulationOutput(TypedDict):
    revertReason: NotRequired[Any]
    globalVariables: GlobalVariables
    txEffect: TxEffect
    publicReturnValues: list[NestedProcessReturnValues]
    gasUsed: PublicSimulationOutputGasUsed
    debugLogs: NotRequired[list[Any]]


class PublishedCheckpoint(TypedDict):
    checkpoint: Checkpoint
    l1: L1PublishedData
    attestations: list[CommitteeAttestation]


class RegisteredArtifact(TypedDict):
    classId: Fr
    name: str
    functions: int
    events: int
    slots: int
    assertions: int


class SingleValidatorStatsAllTimeProvenPerformance(TypedDict):
    missed: int
    total: int
    epoch: int


class SingleValidatorStats(TypedDict):
    validator: ValidatorStats
    allTimeProvenPerformance: list[SingleValidatorStatsAllTimeProvenPerformance]
    lastProcessedSlot: NotRequired[int]
    initialSlot: NotRequired[int]
    slotWindow: int


class SlashPayloadRoundSlasheOffense(TypedDict):
    offenseType: int
    epochOrSlot: BigInt


class SlashPayloadRoundSlashe(TypedDict):
    validator: EthAddress
    amount: BigInt
    offenses: list[SlashPayloadRoundSlasheOffense]


class SlashPayloadRound(TypedDict):
    address: EthAddress
    timestamp: BigInt
    votes: BigInt
    round: BigInt
    slashes: list[SlashPayloadRoundSlashe]


class StateReference(TypedDict):
    l1ToL2MessageTree: AppendOnlyTreeSnapshot
    partial: PartialStateReference


class SyncStatusCatchingUp(TypedDict):
    blocksPerSecond: float
    etaSeconds: int | None


class SyncStatus(TypedDict):
    state: Literal["serving", "catching up", "following", "degraded", "paused"]
    reason: str | None
    tip: int
    sourceTip: NotRequired[int | None]
    lagBlocks: NotRequired[int | None]
    catchingUp: NotRequired[SyncStatusCatchingUp | None]
    isReady: bool
    noTransactions: str | None
    isSampleChain: bool
    fastnodeVersion: str
    reorgs: NotRequired[int]
    isCanonical: NotRequired[bool | None]
    canonicalRollup: NotRequired[EthAddress | None]
    lastPassAt: NotRequired[int | None]
    unconfirmedFromCheckpoint: NotRequired[int | None]
    upstreams: list[Any]
    l1: NotRequired[Any]


class TimeStat(TypedDict):
    timestamp: BigInt
    slot: int
    date: str


class TipId(TypedDict):
    block: BlockId
    checkpoint: BlockId


class TracedCall(TypedDict):
    phase: Literal["setup", "app", "teardown"]
    contractAddress: Fr
    msgSender: Fr
    isStaticCall: bool
    functionSelector: str | None
    contractName: NotRequired[str]
    functionName: NotRequired[str]
    arguments: NotRequired[list[NamedValue]]
    returnValue: NotRequired[Any]
    assertion: NotRequired[str]
    number: int | None
    calldata: list[Fr]
    calldataFields: int
    gasLimit: Gas
    gasUsed: Gas
    success: bool
    returnData: list[Fr]
    message: NotRequired[str]
    pcs: NotRequired[list[int]]
    entries: list[Any]


class TracedStep(TypedDict):
    call: int
    pc: int
    operation: str
    l2GasLeft: int
    daGasLeft: int
    l2Gas: int
    daGas: int
    memory: list[int]


class TransactionTraceStep(TypedDict):
    first: int
    taken: int
    list: list[TracedStep]


class TransactionTraceGasProfile(TypedDict):
    l2: list[str]
    da: list[str]


class TransactionTrace(TypedDict):
    txHash: Fr
    status: Literal["mined", "pending", "simulated"]
    blockNumber: int
    blockHash: NotRequired[Fr]
    txIndexInBlock: NotRequired[int]
    source: NotRequired[Literal["pool", "kept", "upstream", "peers", "request"]]
    missing: NotRequired[str]
    effect: TxEffect
    revertCode: NotRequired[int]
    gas: NotRequired[GasOfTrace]
    fee: NotRequired[FeeOfTrace]
    revertReason: NotRequired[Any]
    isTruncated: NotRequired[bool]
    steps: NotRequired[TransactionTraceStep]
    gasProfile: NotRequired[TransactionTraceGasProfile]
    calls: NotRequired[list[TracedCall]]


class TxContractClassLogField(TypedDict):
    fields: list[Fr]


class TxPublicFunctionCalldata(TypedDict):
    values: list[Fr]
    hash: Fr


class Tx(TypedDict):
    txHash: NotRequired[Fr]
    data: Base64
    chonkProof: Base64
    contractClassLogFields: list[TxContractClassLogField]
    publicFunctionCalldata: list[TxPublicFunctionCalldata]


class TxEffect(TypedDict):
    #: 0 success, 1 app logic, 2 teardown, 3 both reverted.
    revertCode: int
    txHash: Fr
    #: In the smallest unit of the fee asset.
    transactionFee: Fr
    #: Unique and siloed.
    noteHashes: list[Fr]
    #: Siloed.
    nullifiers: list[Fr]
    #: Hashes of messages to L1.
    l2ToL1Msgs: list[Fr]
    publicDataWrites: list[PublicDataWrite]
    privateLogs: list[PrivateLog]
    publicLogs: list[PublicLog]
    contractClassLogs: list[ContractClassLog]


class TxEffectMembershipWitness(TypedDict):
    blockNumber: int
    root: Fr
    categoriesHash: Fr
    leafIndex: BigInt
    siblingPath: Base64


class TxReceipt(TypedDict):
    txHash: Fr
    status: Literal["dropped", "pending", "proposed", "checkpointed", "proven", "finalized"]
    executionResult: NotRequired[Literal["success", "reverted", "app_logic_reverted", "teardown_reverted", "both_reverted"]]
    error: NotRequired[str]
    transactionFee: NotRequired[BigInt]
    blockHash: NotRequired[Fr]
    blockNumber: NotRequired[int]
    epochNumber: NotRequired[int]
    debugLogs: NotRequired[list[Any]]
    unknownHere: NotRequired[bool]


class TxScopedL2Log(TypedDict):
    txHash: Fr
    blockNumber: int
    blockTimestamp: BigInt
    logData: list[Fr]
    noteHashes: list[Fr]
    firstNullifier: Fr


class TxValidationResult(TypedDict):
    result: Literal["valid", "invalid", "skipped"]
    reason: NotRequired[list[str]]


class ValidatorStatsHistory(TypedDict):
    slot: int
    status: str


class ValidatorStats(TypedDict):
    address: EthAddress
    lastProposal: NotRequired[TimeStat]
    lastAttestation: NotRequired[TimeStat]
    totalSlots: int
    missedProposals: MissedStat
    missedAttestations: MissedStat
    history: list[ValidatorStatsHistory]


class ValidatorsStats(TypedDict):
    stats: dict[str, ValidatorStats]
    lastProcessedSlot: NotRequired[int]
    initialSlot: NotRequired[int]
    slotWindow: int


class WorldStateSyncStatus(TypedDict):
    latestBlockNumber: int
    latestBlockHash: Fr
    finalizedBlockNumber: int
    oldestHistoricBlockNumber: int
    treesAreSynched: bool
