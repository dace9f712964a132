# Made by scripts/make-docs from the method table: change that instead.
"""Calls of the methods of releases 5.x and 6.x that are not made yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastnode.client import records
from fastnode.client.calls import Call
from fastnode.client.prepared import BlockParameter, Field


def discover() -> Call[Any]:
    """rpc.discover: This interface as an OpenRPC document."""
    return Call("rpc.discover")


def find_leaves_indexes(reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> Call[list[records.DataInBlock | None]]:
    """aztec_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
    return Call("aztec_findLeavesIndexes", (reference_block, tree_id, leaf_values,))


def get_allowed_public_setup() -> Call[list[records.AllowedElement]]:
    """aztec_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
    return Call("aztec_getAllowedPublicSetup")


def get_block(block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> Call[records.BlockResponse | None]:
    """aztec_getBlock: One block."""
    return Call("aztec_getBlock", (block_parameter, options,))


def get_block_data(block_parameter: BlockParameter) -> Call[records.BlockData | None]:
    """aztec_getBlockData: A block without its transactions."""
    return Call("aztec_getBlockData", (block_parameter,))


def get_block_hash_membership_witness(reference_block: BlockParameter, block_hash: Field) -> Call[records.Base64 | None]:
    """aztec_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
    return Call("aztec_getBlockHashMembershipWitness", (reference_block, block_hash,))


def get_block_hash_membership_witness_at_archive(reference: Mapping[str, str], block_hash: Field) -> Call[records.Base64 | None]:
    """aztec_getBlockHashMembershipWitnessAtArchive: Proof that a block is in the archive with this root: the one after some block, which has that block. Only in 6.x."""
    return Call("aztec_getBlockHashMembershipWitnessAtArchive", (reference, block_hash,))


def get_block_number(tip: str | None = None) -> Call[int]:
    """aztec_getBlockNumber: Number of the newest block, or of the block of a tip."""
    return Call("aztec_getBlockNumber", (tip,))


def get_blocks(from_: int, limit: int, options: Mapping[str, bool] | None = None) -> Call[list[records.BlockResponse]]:
    """aztec_getBlocks: Consecutive blocks."""
    return Call("aztec_getBlocks", (from_, limit, options,))


def get_chain_id() -> Call[int]:
    """aztec_getChainId: Chain id of L1."""
    return Call("aztec_getChainId")


def get_chain_tips() -> Call[records.ChainTips]:
    """aztec_getChainTips: Numbers and hashes of the four tips."""
    return Call("aztec_getChainTips")


def get_checkpoint(checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> Call[records.CheckpointResponse | None]:
    """aztec_getCheckpoint: One checkpoint by number, slot or tip."""
    return Call("aztec_getCheckpoint", (checkpoint_parameter, options,))


def get_checkpoint_attestations_for_slot(slot: int, proposal_payload_hash: Field | None = None) -> Call[list[records.CheckpointAttestation]]:
    """aztec_getCheckpointAttestationsForSlot: Attestations of a slot that peers have sent, one of each member of its committee."""
    return Call("aztec_getCheckpointAttestationsForSlot", (slot, proposal_payload_hash,))


def get_checkpoint_number(tip: str | None = None) -> Call[int]:
    """aztec_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
    return Call("aztec_getCheckpointNumber", (tip,))


def get_checkpoints(from_: int, limit: int, options: Mapping[str, bool] | None = None) -> Call[list[records.CheckpointResponse]]:
    """aztec_getCheckpoints: Consecutive complete checkpoints."""
    return Call("aztec_getCheckpoints", (from_, limit, options,))


def get_checkpoints_data(query: Mapping[str, int | bool]) -> Call[list[records.CheckpointData]]:
    """aztec_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
    return Call("aztec_getCheckpointsData", (query,))


def get_config() -> Call[dict[str, Any]]:
    """aztecAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
    return Call("aztecAdmin_getConfig")


def get_contract(address: Field, reference_block: BlockParameter | None = None) -> Call[records.ContractInstanceWithAddress | None]:
    """aztec_getContract: A contract that the chain has published, with its class at a block, or at the newest."""
    return Call("aztec_getContract", (address, reference_block,))


def get_contract_class(id_: Field) -> Call[records.ContractClassPublic | None]:
    """aztec_getContractClass: A contract class that the chain has published."""
    return Call("aztec_getContractClass", (id_,))


def get_current_min_fees() -> Call[records.GasFees]:
    """aztec_getCurrentMinFees: What a unit of gas costs at least now."""
    return Call("aztec_getCurrentMinFees")


def get_encoded_enr() -> Call[str | None]:
    """aztec_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
    return Call("aztec_getEncodedEnr")


def get_genesis() -> Call[dict[str, Any]]:
    """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
    return Call("fastnode_getGenesis")


def get_kept_tx(tx_hash: Field) -> Call[records.Tx | None]:
    """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
    return Call("fastnode_getKeptTx", (tx_hash,))


def get_l1_constants() -> Call[records.L1RollupConstants]:
    """aztec_getL1Constants: Durations and limits of the rollup."""
    return Call("aztec_getL1Constants")


def get_l1_contract_addresses() -> Call[records.L1ContractAddresses]:
    """aztec_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
    return Call("aztec_getL1ContractAddresses")


def get_l1_to_l2_message_checkpoint(l1_to_l2_message: Field) -> Call[int | None]:
    """aztec_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message. Only in 5.x."""
    return Call("aztec_getL1ToL2MessageCheckpoint", (l1_to_l2_message,))


def get_l1_to_l2_message_index(l1_to_l2_message: Field) -> Call[records.BigInt | None]:
    """aztec_getL1ToL2MessageIndex: Leaf index of an L1-to-L2 message, also before a block has inserted it. Only in 6.x."""
    return Call("aztec_getL1ToL2MessageIndex", (l1_to_l2_message,))


def get_l1_to_l2_message_membership_witness(reference_block: BlockParameter, l1_to_l2_message: Field) -> Call[list[records.BigInt | records.Base64] | None]:
    """aztec_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
    return Call("aztec_getL1ToL2MessageMembershipWitness", (reference_block, l1_to_l2_message,))


def get_l1_to_l2_messages(checkpoint_number: int) -> Call[list[records.Fr] | None]:
    """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
    return Call("fastnode_getL1ToL2Messages", (checkpoint_number,))


def get_l2_to_l1_membership_witness(tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> Call[records.L2ToL1MembershipWitness | None]:
    """aztec_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
    return Call("aztec_getL2ToL1MembershipWitness", (tx_hash, message, message_index_in_tx,))


def get_l2_to_l1_messages(epoch: int) -> Call[list[list[list[list[records.Fr]]]]]:
    """aztec_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
    return Call("aztec_getL2ToL1Messages", (epoch,))


def get_low_nullifier_membership_witness(reference_block: BlockParameter, nullifier: Field) -> Call[records.NullifierMembershipWitness | None]:
    """aztec_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
    return Call("aztec_getLowNullifierMembershipWitness", (reference_block, nullifier,))


def get_max_priority_fees() -> Call[records.GasFees]:
    """aztec_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
    return Call("aztec_getMaxPriorityFees")


def get_node_info() -> Call[records.NodeInfo]:
    """aztec_getNodeInfo: Versions and addresses of the network."""
    return Call("aztec_getNodeInfo")


def get_node_version() -> Call[str]:
    """aztec_getNodeVersion: Node version of the network."""
    return Call("aztec_getNodeVersion")


def get_note_hash_membership_witness(reference_block: BlockParameter, note_hash: Field) -> Call[records.Base64 | None]:
    """aztec_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
    return Call("aztec_getNoteHashMembershipWitness", (reference_block, note_hash,))


def get_nullifier_membership_witness(reference_block: BlockParameter, nullifier: Field) -> Call[records.NullifierMembershipWitness | None]:
    """aztec_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
    return Call("aztec_getNullifierMembershipWitness", (reference_block, nullifier,))


def get_peers(include_pending: bool | None = None) -> Call[list[records.PeerInfo]]:
    """aztec_getPeers: The peers that are connected."""
    return Call("aztec_getPeers", (include_pending,))


def get_pending_tx_count() -> Call[int]:
    """aztec_getPendingTxCount: How many transactions are pending."""
    return Call("aztec_getPendingTxCount")


def get_pending_txs(limit: int | None = None, after: Field | None = None, options: Mapping[str, bool] | None = None) -> Call[list[records.Tx]]:
    """aztec_getPendingTxs: Pending transactions by falling priority, after the one named."""
    return Call("aztec_getPendingTxs", (limit, after, options,))


def get_predicted_min_fees(mana_usage: int | str | None = None) -> Call[list[records.GasFees] | None]:
    """aztec_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
    return Call("aztec_getPredictedMinFees", (mana_usage,))


def get_private_logs_by_tags(query: Mapping[str, Any]) -> Call[list[list[records.LogResult]]]:
    """aztec_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, up to twenty per tag, with their places."""
    return Call("aztec_getPrivateLogsByTags", (query,))


def get_proposals_for_slot(slot: int) -> Call[records.ProposalsForSlot]:
    """aztec_getProposalsForSlot: Proposals of a slot that peers have sent, in their binary form."""
    return Call("aztec_getProposalsForSlot", (slot,))


def get_protocol_contract_addresses() -> Call[records.ProtocolContractAddresses]:
    """aztec_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
    return Call("aztec_getProtocolContractAddresses")


def get_public_data_witness(reference_block: BlockParameter, leaf_slot: Field) -> Call[records.PublicDataWitness | None]:
    """aztec_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
    return Call("aztec_getPublicDataWitness", (reference_block, leaf_slot,))


def get_public_events(filter_: Mapping[str, Any]) -> Call[records.GetPublicEventsResponse]:
    """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
    return Call("fastnode_getPublicEvents", (filter_,))


def get_public_logs_by_tags(query: Mapping[str, Any]) -> Call[list[list[records.LogResult]]]:
    """aztec_getPublicLogsByTags: Public logs of a contract whose first field is one of the tags given, with their places."""
    return Call("aztec_getPublicLogsByTags", (query,))


def get_public_storage_at(reference_block: BlockParameter, contract: Field, slot: Field) -> Call[records.Fr]:
    """aztec_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
    return Call("aztec_getPublicStorageAt", (reference_block, contract, slot,))


def get_slash_offenses(round: int | str) -> Call[list[records.Offense]]:
    """aztecAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
    return Call("aztecAdmin_getSlashOffenses", (round,))


def get_sync_status() -> Call[records.SyncStatus]:
    """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
    return Call("fastnode_getSyncStatus")


def get_synced_l1_timestamp() -> Call[records.BigInt | None]:
    """aztec_getSyncedL1Timestamp: Time of L1's newest block that has been read, in seconds."""
    return Call("aztec_getSyncedL1Timestamp")


def get_synced_l2_epoch_number() -> Call[int | None]:
    """aztec_getSyncedL2EpochNumber: The last epoch of which all of L1 has been read."""
    return Call("aztec_getSyncedL2EpochNumber")


def get_synced_l2_slot_number() -> Call[int | None]:
    """aztec_getSyncedL2SlotNumber: The last slot of which all of L1 has been read."""
    return Call("aztec_getSyncedL2SlotNumber")


def get_tx_by_hash(tx_hash: Field, options: Mapping[str, bool] | None = None) -> Call[records.Tx | None]:
    """aztec_getTxByHash: A transaction that waits, or is mined but not yet final."""
    return Call("aztec_getTxByHash", (tx_hash, options,))


def get_tx_effect(tx_hash: Field) -> Call[records.IndexedTxEffect | None]:
    """aztec_getTxEffect: Everything that a mined transaction changed."""
    return Call("aztec_getTxEffect", (tx_hash,))


def get_tx_effect_membership_witness(tx_hash: Field) -> Call[records.TxEffectMembershipWitness | None]:
    """aztec_getTxEffectMembershipWitness: Proof that a block has a transaction with its effects, against the root in the block's header. Only in 6.x."""
    return Call("aztec_getTxEffectMembershipWitness", (tx_hash,))


def get_tx_receipt(tx_hash: Field, options: Mapping[str, bool] | None = None) -> Call[records.MinedTxReceipt | records.PendingTxReceipt | records.DroppedTxReceipt]:
    """aztec_getTxReceipt: What became of a transaction: mined, pending or dropped, with what the options ask for."""
    return Call("aztec_getTxReceipt", (tx_hash, options,))


def get_txs_by_hash(tx_hashes: Sequence[Field], options: Mapping[str, bool] | None = None) -> Call[list[records.Tx]]:
    """aztec_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
    return Call("aztec_getTxsByHash", (tx_hashes, options,))


def get_validator_stats(validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> Call[records.EpochValidatorStats | None]:
    """aztec_getValidatorStats: What one validator did."""
    return Call("aztec_getValidatorStats", (validator_address, from_slot, to_slot,))


def get_validator_stats_batch(validator_addresses: Sequence[str], from_slot: int | None = None, to_slot: int | None = None) -> Call[list[records.EpochValidatorStats | None]]:
    """aztec_getValidatorStatsBatch: What each of several validators did, over one range of slots; null for one without statistics. Only in 6.x."""
    return Call("aztec_getValidatorStatsBatch", (validator_addresses, from_slot, to_slot,))


def get_validators_stats() -> Call[records.ValidatorsStats]:
    """aztec_getValidatorsStats: What each validator did in the last slots."""
    return Call("aztec_getValidatorsStats")


def get_version() -> Call[int]:
    """aztec_getVersion: Version number of the rollup."""
    return Call("aztec_getVersion")


def get_world_state_sync_status() -> Call[records.WorldStateSyncStatus]:
    """aztec_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
    return Call("aztec_getWorldStateSyncStatus")


def is_ready() -> Call[bool]:
    """aztec_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
    return Call("aztec_isReady")


def is_valid_tx(tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> Call[records.TxValidationResult]:
    """aztec_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
    return Call("aztec_isValidTx", (tx, options,))


def pause_sequencer() -> Call[None]:
    """aztecAdmin_pauseSequencer: Build no more blocks; transactions go on waiting."""
    return Call("aztecAdmin_pauseSequencer")


def pause_sync() -> Call[None]:
    """aztecAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
    return Call("aztecAdmin_pauseSync")


def register_artifact(artifact: Mapping[str, Any], class_id: Field | None = None) -> Call[records.RegisteredArtifact]:
    """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
    return Call("fastnode_registerArtifact", (artifact, class_id,))


def reload_keystore() -> Call[None]:
    """aztecAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
    return Call("aztecAdmin_reloadKeystore")


def resume_sequencer() -> Call[None]:
    """aztecAdmin_resumeSequencer: Build blocks again."""
    return Call("aztecAdmin_resumeSequencer")


def resume_sync() -> Call[None]:
    """aztecAdmin_resumeSync: Go on ingesting."""
    return Call("aztecAdmin_resumeSync")


def rollback_to(target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> Call[None]:
    """aztecAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
    return Call("aztecAdmin_rollbackTo", (target_block_number, force, resume_sync,))


def send_tx(tx: Mapping[str, Any]) -> Call[None]:
    """aztec_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
    return Call("aztec_sendTx", (tx,))


def set_config(config: Mapping[str, Any]) -> Call[None]:
    """aztecAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
    return Call("aztecAdmin_setConfig", (config,))


def simulate_public_calls(tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None, overrides: Mapping[str, Any] | None = None) -> Call[records.PublicSimulationOutput]:
    """aztec_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
    return Call("aztec_simulatePublicCalls", (tx, skip_fee_enforcement, overrides,))


def start_snapshot_upload(location: str) -> Call[None]:
    """aztecAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
    return Call("aztecAdmin_startSnapshotUpload", (location,))


def trace_block(block_number: int, options: Mapping[str, Any] | None = None) -> Call[list[records.TransactionTrace] | None]:
    """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
    return Call("fastnode_traceBlock", (block_number, options,))


def trace_call(tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Call[records.TransactionTrace]:
    """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
    return Call("fastnode_traceCall", (tx, options,))


def trace_transaction(tx_hash: Field, options: Mapping[str, Any] | None = None) -> Call[records.TransactionTrace | None]:
    """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
    return Call("fastnode_traceTransaction", (tx_hash, options,))
