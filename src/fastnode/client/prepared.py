# Made by scripts/make-docs from the method table: change that instead.
"""Calls that are not made yet: for batches, and for results of other types (Call.into)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fastnode.client import records
from fastnode.client.calls import Call

#: 32 bytes, or 0x and hex digits.
Field: TypeAlias = str | bytes
#: A number, a hash, the name of a tip, or an object such as {"tag": "proven"}.
BlockParameter: TypeAlias = int | str | bytes | Mapping[str, Any]


def discover() -> Call[Any]:
    """rpc.discover: This interface as an OpenRPC document."""
    return Call("rpc.discover")


def find_leaves_indexes(reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> Call[list[records.DataInBlock | None]]:
    """node_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
    return Call("node_findLeavesIndexes", (reference_block, tree_id, leaf_values,))


def get_allowed_public_setup() -> Call[list[records.AllowedElement]]:
    """node_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
    return Call("node_getAllowedPublicSetup")


def get_block(block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> Call[records.L2Block | records.BlockResponse | None]:
    """node_getBlock: One block."""
    return Call("node_getBlock", (block_parameter, options,))


def get_block_by_archive(archive: Field) -> Call[records.L2Block | None]:
    """node_getBlockByArchive: The block after which the archive tree has a root."""
    return Call("node_getBlockByArchive", (archive,))


def get_block_by_hash(block_hash: Field) -> Call[records.L2Block | None]:
    """node_getBlockByHash: The block with a header hash."""
    return Call("node_getBlockByHash", (block_hash,))


def get_block_data(block_parameter: BlockParameter) -> Call[records.BlockData | None]:
    """node_getBlockData: A block without its transactions."""
    return Call("node_getBlockData", (block_parameter,))


def get_block_hash_membership_witness(reference_block: BlockParameter, block_hash: Field) -> Call[records.Base64 | None]:
    """node_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
    return Call("node_getBlockHashMembershipWitness", (reference_block, block_hash,))


def get_block_header(block: BlockParameter | None = None) -> Call[records.BlockHeader | None]:
    """node_getBlockHeader: The header of one block; of the newest without a parameter."""
    return Call("node_getBlockHeader", (block,))


def get_block_header_by_archive(archive: Field) -> Call[records.BlockHeader | None]:
    """node_getBlockHeaderByArchive: The header of the block after which the archive tree has a root."""
    return Call("node_getBlockHeaderByArchive", (archive,))


def get_block_number(tip: str | None = None) -> Call[int]:
    """node_getBlockNumber: Number of the newest block, or of the block of a tip."""
    return Call("node_getBlockNumber", (tip,))


def get_blocks(from_: int, limit: int, options: Mapping[str, bool] | None = None) -> Call[list[records.L2Block] | list[records.BlockResponse]]:
    """node_getBlocks: Consecutive blocks."""
    return Call("node_getBlocks", (from_, limit, options,))


def get_chain_id() -> Call[int]:
    """node_getChainId: Chain id of L1."""
    return Call("node_getChainId")


def get_chain_tips() -> Call[records.ChainTips]:
    """node_getChainTips: Numbers and hashes of the four tips."""
    return Call("node_getChainTips")


def get_checkpoint(checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> Call[records.CheckpointResponse | None]:
    """node_getCheckpoint: One checkpoint by number, slot or tip."""
    return Call("node_getCheckpoint", (checkpoint_parameter, options,))


def get_checkpoint_number(tip: str | None = None) -> Call[int]:
    """node_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
    return Call("node_getCheckpointNumber", (tip,))


def get_checkpointed_block_number() -> Call[int]:
    """node_getCheckpointedBlockNumber: Number of the last block in a complete checkpoint."""
    return Call("node_getCheckpointedBlockNumber")


def get_checkpointed_blocks(from_: int, limit: int) -> Call[list[records.CheckpointedL2Block]]:
    """node_getCheckpointedBlocks: Consecutive blocks that are in a complete checkpoint, with what L1 says about it."""
    return Call("node_getCheckpointedBlocks", (from_, limit,))


def get_checkpoints(from_: int, limit: int, options: Mapping[str, bool] | None = None) -> Call[list[records.PublishedCheckpoint] | list[records.CheckpointResponse]]:
    """node_getCheckpoints: Consecutive complete checkpoints."""
    return Call("node_getCheckpoints", (from_, limit, options,))


def get_checkpoints_data(query: Mapping[str, int]) -> Call[list[records.CheckpointData]]:
    """node_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
    return Call("node_getCheckpointsData", (query,))


def get_checkpoints_data_for_epoch(epoch_number: int) -> Call[list[records.CheckpointData]]:
    """node_getCheckpointsDataForEpoch: Complete checkpoints of an epoch without their blocks."""
    return Call("node_getCheckpointsDataForEpoch", (epoch_number,))


def get_config() -> Call[dict[str, Any]]:
    """nodeAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
    return Call("nodeAdmin_getConfig")


def get_contract(address: Field) -> Call[records.ContractInstanceWithAddress | None]:
    """node_getContract: A contract that the chain has published, with its class at the newest block."""
    return Call("node_getContract", (address,))


def get_contract_class(id_: Field) -> Call[records.ContractClassPublic | None]:
    """node_getContractClass: A contract class that the chain has published."""
    return Call("node_getContractClass", (id_,))


def get_contract_class_logs(filter_: Mapping[str, Any]) -> Call[records.GetContractClassLogsResponse]:
    """node_getContractClassLogs: Contract class logs of a block range or a transaction, narrowed to a contract."""
    return Call("node_getContractClassLogs", (filter_,))


def get_current_min_fees() -> Call[records.GasFees]:
    """node_getCurrentMinFees: What a unit of gas costs at least now."""
    return Call("node_getCurrentMinFees")


def get_encoded_enr() -> Call[str | None]:
    """node_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
    return Call("node_getEncodedEnr")


def get_genesis() -> Call[dict[str, Any]]:
    """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
    return Call("fastnode_getGenesis")


def get_kept_tx(tx_hash: Field) -> Call[records.Tx | None]:
    """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
    return Call("fastnode_getKeptTx", (tx_hash,))


def get_l1_contract_addresses() -> Call[records.L1ContractAddresses]:
    """node_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
    return Call("node_getL1ContractAddresses")


def get_l1_to_l2_message_checkpoint(l1_to_l2_message: Field) -> Call[int | None]:
    """node_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message."""
    return Call("node_getL1ToL2MessageCheckpoint", (l1_to_l2_message,))


def get_l1_to_l2_message_membership_witness(reference_block: BlockParameter, l1_to_l2_message: Field) -> Call[list[records.BigInt | records.Base64] | None]:
    """node_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
    return Call("node_getL1ToL2MessageMembershipWitness", (reference_block, l1_to_l2_message,))


def get_l1_to_l2_messages(checkpoint_number: int) -> Call[list[records.Fr] | None]:
    """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
    return Call("fastnode_getL1ToL2Messages", (checkpoint_number,))


def get_l2_tips() -> Call[records.L2Tips]:
    """node_getL2Tips: Numbers and hashes of the four tips."""
    return Call("node_getL2Tips")


def get_l2_to_l1_membership_witness(tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> Call[records.L2ToL1MembershipWitness | None]:
    """node_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
    return Call("node_getL2ToL1MembershipWitness", (tx_hash, message, message_index_in_tx,))


def get_l2_to_l1_messages(epoch: int) -> Call[list[list[list[list[records.Fr]]]]]:
    """node_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
    return Call("node_getL2ToL1Messages", (epoch,))


def get_low_nullifier_membership_witness(reference_block: BlockParameter, nullifier: Field) -> Call[records.NullifierMembershipWitness | None]:
    """node_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
    return Call("node_getLowNullifierMembershipWitness", (reference_block, nullifier,))


def get_max_priority_fees() -> Call[records.GasFees]:
    """node_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
    return Call("node_getMaxPriorityFees")


def get_node_info() -> Call[records.NodeInfo]:
    """node_getNodeInfo: Versions and addresses of the network."""
    return Call("node_getNodeInfo")


def get_node_version() -> Call[str]:
    """node_getNodeVersion: Node version of the network."""
    return Call("node_getNodeVersion")


def get_note_hash_membership_witness(reference_block: BlockParameter, note_hash: Field) -> Call[records.Base64 | None]:
    """node_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
    return Call("node_getNoteHashMembershipWitness", (reference_block, note_hash,))


def get_nullifier_membership_witness(reference_block: BlockParameter, nullifier: Field) -> Call[records.NullifierMembershipWitness | None]:
    """node_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
    return Call("node_getNullifierMembershipWitness", (reference_block, nullifier,))


def get_pending_tx_count() -> Call[int]:
    """node_getPendingTxCount: How many transactions are pending."""
    return Call("node_getPendingTxCount")


def get_pending_txs(limit: int | None = None, after: Field | None = None) -> Call[list[records.Tx]]:
    """node_getPendingTxs: Pending transactions by falling priority, after the one named."""
    return Call("node_getPendingTxs", (limit, after,))


def get_predicted_min_fees(mana_usage: int | str | None = None) -> Call[list[records.GasFees] | None]:
    """node_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
    return Call("node_getPredictedMinFees", (mana_usage,))


def get_private_logs_by_tags(tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> Call[list[list[records.TxScopedL2Log]]]:
    """node_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, ten per tag and page."""
    return Call("node_getPrivateLogsByTags", (tags, page, reference_block,))


def get_protocol_contract_addresses() -> Call[records.ProtocolContractAddresses]:
    """node_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
    return Call("node_getProtocolContractAddresses")


def get_proven_block_number() -> Call[int]:
    """node_getProvenBlockNumber: Number of the last proven block."""
    return Call("node_getProvenBlockNumber")


def get_public_data_witness(reference_block: BlockParameter, leaf_slot: Field) -> Call[records.PublicDataWitness | None]:
    """node_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
    return Call("node_getPublicDataWitness", (reference_block, leaf_slot,))


def get_public_events(filter_: Mapping[str, Any]) -> Call[records.GetPublicEventsResponse]:
    """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
    return Call("fastnode_getPublicEvents", (filter_,))


def get_public_logs(filter_: Mapping[str, Any]) -> Call[records.GetPublicLogsResponse]:
    """node_getPublicLogs: Public logs of a block range or a transaction, narrowed to a contract and a tag."""
    return Call("node_getPublicLogs", (filter_,))


def get_public_logs_by_tags_from_contract(contract_address: Field, tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> Call[list[list[records.TxScopedL2Log]]]:
    """node_getPublicLogsByTagsFromContract: Public logs of a contract whose first field is one of the tags given, ten per tag and page."""
    return Call("node_getPublicLogsByTagsFromContract", (contract_address, tags, page, reference_block,))


def get_public_storage_at(reference_block: BlockParameter, contract: Field, slot: Field) -> Call[records.Fr]:
    """node_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
    return Call("node_getPublicStorageAt", (reference_block, contract, slot,))


def get_slash_offenses(round: int | str) -> Call[list[records.Offense]]:
    """nodeAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
    return Call("nodeAdmin_getSlashOffenses", (round,))


def get_slash_payloads() -> Call[list[records.SlashPayloadRound]]:
    """nodeAdmin_getSlashPayloads: Payloads that are voted on in this round; an error where votes are tallied per validator."""
    return Call("nodeAdmin_getSlashPayloads")


def get_sync_status() -> Call[records.SyncStatus]:
    """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
    return Call("fastnode_getSyncStatus")


def get_tx_by_hash(tx_hash: Field) -> Call[records.Tx | None]:
    """node_getTxByHash: A transaction that waits, or is mined but not yet final."""
    return Call("node_getTxByHash", (tx_hash,))


def get_tx_effect(tx_hash: Field) -> Call[records.IndexedTxEffect | None]:
    """node_getTxEffect: Everything that a mined transaction changed."""
    return Call("node_getTxEffect", (tx_hash,))


def get_tx_receipt(tx_hash: Field) -> Call[records.TxReceipt]:
    """node_getTxReceipt: What became of a transaction: pending, dropped, or mined with its fee and block."""
    return Call("node_getTxReceipt", (tx_hash,))


def get_txs_by_hash(tx_hashes: Sequence[Field]) -> Call[list[records.Tx]]:
    """node_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
    return Call("node_getTxsByHash", (tx_hashes,))


def get_validator_stats(validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> Call[records.SingleValidatorStats | None]:
    """node_getValidatorStats: What one validator did."""
    return Call("node_getValidatorStats", (validator_address, from_slot, to_slot,))


def get_validators_stats() -> Call[records.ValidatorsStats]:
    """node_getValidatorsStats: What each validator did in the last slots."""
    return Call("node_getValidatorsStats")


def get_version() -> Call[int]:
    """node_getVersion: Version number of the rollup."""
    return Call("node_getVersion")


def get_world_state_sync_status() -> Call[records.WorldStateSyncStatus]:
    """node_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
    return Call("node_getWorldStateSyncStatus")


def is_l1_to_l2_message_synced(l1_to_l2_message: Field) -> Call[bool]:
    """node_isL1ToL2MessageSynced: Whether the node knows an L1-to-L2 message."""
    return Call("node_isL1ToL2MessageSynced", (l1_to_l2_message,))


def is_ready() -> Call[bool]:
    """node_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
    return Call("node_isReady")


def is_valid_tx(tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> Call[records.TxValidationResult]:
    """node_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
    return Call("node_isValidTx", (tx, options,))


def pause_sync() -> Call[None]:
    """nodeAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
    return Call("nodeAdmin_pauseSync")


def register_artifact(artifact: Mapping[str, Any], class_id: Field | None = None) -> Call[records.RegisteredArtifact]:
    """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
    return Call("fastnode_registerArtifact", (artifact, class_id,))


def register_contract_function_signatures(function_signatures: Sequence[str]) -> Call[None]:
    """node_registerContractFunctionSignatures: Name contract functions, for texts that people read."""
    return Call("node_registerContractFunctionSignatures", (function_signatures,))


def reload_keystore() -> Call[None]:
    """nodeAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
    return Call("nodeAdmin_reloadKeystore")


def resume_sync() -> Call[None]:
    """nodeAdmin_resumeSync: Go on ingesting."""
    return Call("nodeAdmin_resumeSync")


def rollback_to(target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> Call[None]:
    """nodeAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
    return Call("nodeAdmin_rollbackTo", (target_block_number, force, resume_sync,))


def send_tx(tx: Mapping[str, Any]) -> Call[None]:
    """node_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
    return Call("node_sendTx", (tx,))


def set_config(config: Mapping[str, Any]) -> Call[None]:
    """nodeAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
    return Call("nodeAdmin_setConfig", (config,))


def simulate_public_calls(tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None) -> Call[records.PublicSimulationOutput]:
    """node_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
    return Call("node_simulatePublicCalls", (tx, skip_fee_enforcement,))


def start_snapshot_upload(location: str) -> Call[None]:
    """nodeAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
    return Call("nodeAdmin_startSnapshotUpload", (location,))


def trace_block(block_number: int, options: Mapping[str, Any] | None = None) -> Call[list[records.TransactionTrace] | None]:
    """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
    return Call("fastnode_traceBlock", (block_number, options,))


def trace_call(tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Call[records.TransactionTrace]:
    """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
    return Call("fastnode_traceCall", (tx, options,))


def trace_transaction(tx_hash: Field, options: Mapping[str, Any] | None = None) -> Call[records.TransactionTrace | None]:
    """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
    return Call("fastnode_traceTransaction", (tx_hash, options,))
