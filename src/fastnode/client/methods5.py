# Made by scripts/make-docs from the method table: change that instead.
"""Every method of releases 5.x and 6.x as a method of the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastnode.client import prepared5, records
from fastnode.client.calls import Call
from fastnode.client.prepared import BlockParameter, Field

T = TypeVar("T")


class SyncMethods5:
    def call(self, call: Call[T]) -> T:
        """Make a call."""
        raise NotImplementedError

    def discover(self) -> Any:
        """rpc.discover: This interface as an OpenRPC document."""
        return self.call(prepared5.discover())

    def find_leaves_indexes(self, reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> list[records.DataInBlock | None]:
        """aztec_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
        return self.call(prepared5.find_leaves_indexes(reference_block, tree_id, leaf_values))

    def get_allowed_public_setup(self) -> list[records.AllowedElement]:
        """aztec_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
        return self.call(prepared5.get_allowed_public_setup())

    def get_block(self, block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> records.BlockResponse | None:
        """aztec_getBlock: One block."""
        return self.call(prepared5.get_block(block_parameter, options))

    def get_block_data(self, block_parameter: BlockParameter) -> records.BlockData | None:
        """aztec_getBlockData: A block without its transactions."""
        return self.call(prepared5.get_block_data(block_parameter))

    def get_block_hash_membership_witness(self, reference_block: BlockParameter, block_hash: Field) -> records.Base64 | None:
        """aztec_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
        return self.call(prepared5.get_block_hash_membership_witness(reference_block, block_hash))

    def get_block_hash_membership_witness_at_archive(self, reference: Mapping[str, str], block_hash: Field) -> records.Base64 | None:
        """aztec_getBlockHashMembershipWitnessAtArchive: Proof that a block is in the archive with this root: the one after some block, which has that block. Only in 6.x."""
        return self.call(prepared5.get_block_hash_membership_witness_at_archive(reference, block_hash))

    def get_block_number(self, tip: str | None = None) -> int:
        """aztec_getBlockNumber: Number of the newest block, or of the block of a tip."""
        return self.call(prepared5.get_block_number(tip))

    def get_blocks(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.BlockResponse]:
        """aztec_getBlocks: Consecutive blocks."""
        return self.call(prepared5.get_blocks(from_, limit, options))

    def get_chain_id(self) -> int:
        """aztec_getChainId: Chain id of L1."""
        return self.call(prepared5.get_chain_id())

    def get_chain_tips(self) -> records.ChainTips:
        """aztec_getChainTips: Numbers and hashes of the four tips."""
        return self.call(prepared5.get_chain_tips())

    def get_checkpoint(self, checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> records.CheckpointResponse | None:
        """aztec_getCheckpoint: One checkpoint by number, slot or tip."""
        return self.call(prepared5.get_checkpoint(checkpoint_parameter, options))

    def get_checkpoint_attestations_for_slot(self, slot: int, proposal_payload_hash: Field | None = None) -> list[records.CheckpointAttestation]:
        """aztec_getCheckpointAttestationsForSlot: Attestations of a slot that peers have sent, one of each member of its committee."""
        return self.call(prepared5.get_checkpoint_attestations_for_slot(slot, proposal_payload_hash))

    def get_checkpoint_number(self, tip: str | None = None) -> int:
        """aztec_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
        return self.call(prepared5.get_checkpoint_number(tip))

    def get_checkpoints(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.CheckpointResponse]:
        """aztec_getCheckpoints: Consecutive complete checkpoints."""
        return self.call(prepared5.get_checkpoints(from_, limit, options))

    def get_checkpoints_data(self, query: Mapping[str, int | bool]) -> list[records.CheckpointData]:
        """aztec_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
        return self.call(prepared5.get_checkpoints_data(query))

    def get_config(self) -> dict[str, Any]:
        """aztecAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
        return self.call(prepared5.get_config())

    def get_contract(self, address: Field, reference_block: BlockParameter | None = None) -> records.ContractInstanceWithAddress | None:
        """aztec_getContract: A contract that the chain has published, with its class at a block, or at the newest."""
        return self.call(prepared5.get_contract(address, reference_block))

    def get_contract_class(self, id_: Field) -> records.ContractClassPublic | None:
        """aztec_getContractClass: A contract class that the chain has published."""
        return self.call(prepared5.get_contract_class(id_))

    def get_current_min_fees(self) -> records.GasFees:
        """aztec_getCurrentMinFees: What a unit of gas costs at least now."""
        return self.call(prepared5.get_current_min_fees())

    def get_encoded_enr(self) -> str | None:
        """aztec_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
        return self.call(prepared5.get_encoded_enr())

    def get_genesis(self) -> dict[str, Any]:
        """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
        return self.call(prepared5.get_genesis())

    def get_kept_tx(self, tx_hash: Field) -> records.Tx | None:
        """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
        return self.call(prepared5.get_kept_tx(tx_hash))

    def get_l1_constants(self) -> records.L1RollupConstants:
        """aztec_getL1Constants: Durations and limits of the rollup."""
        return self.call(prepared5.get_l1_constants())

    def get_l1_contract_addresses(self) -> records.L1ContractAddresses:
        """aztec_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
        return self.call(prepared5.get_l1_contract_addresses())

    def get_l1_to_l2_message_checkpoint(self, l1_to_l2_message: Field) -> int | None:
        """aztec_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message. Only in 5.x."""
        return self.call(prepared5.get_l1_to_l2_message_checkpoint(l1_to_l2_message))

    def get_l1_to_l2_message_index(self, l1_to_l2_message: Field) -> records.BigInt | None:
        """aztec_getL1ToL2MessageIndex: Leaf index of an L1-to-L2 message, also before a block has inserted it. Only in 6.x."""
        return self.call(prepared5.get_l1_to_l2_message_index(l1_to_l2_message))

    def get_l1_to_l2_message_membership_witness(self, reference_block: BlockParameter, l1_to_l2_message: Field) -> list[records.BigInt | records.Base64] | None:
        """aztec_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
        return self.call(prepared5.get_l1_to_l2_message_membership_witness(reference_block, l1_to_l2_message))

    def get_l1_to_l2_messages(self, checkpoint_number: int) -> list[records.Fr] | None:
        """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
        return self.call(prepared5.get_l1_to_l2_messages(checkpoint_number))

    def get_l2_to_l1_membership_witness(self, tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> records.L2ToL1MembershipWitness | None:
        """aztec_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
        return self.call(prepared5.get_l2_to_l1_membership_witness(tx_hash, message, message_index_in_tx))

    def get_l2_to_l1_messages(self, epoch: int) -> list[list[list[list[records.Fr]]]]:
        """aztec_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
        return self.call(prepared5.get_l2_to_l1_messages(epoch))

    def get_low_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """aztec_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
        return self.call(prepared5.get_low_nullifier_membership_witness(reference_block, nullifier))

    def get_max_priority_fees(self) -> records.GasFees:
        """aztec_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
        return self.call(prepared5.get_max_priority_fees())

    def get_node_info(self) -> records.NodeInfo:
        """aztec_getNodeInfo: Versions and addresses of the network."""
        return self.call(prepared5.get_node_info())

    def get_node_version(self) -> str:
        """aztec_getNodeVersion: Node version of the network."""
        return self.call(prepared5.get_node_version())

    def get_note_hash_membership_witness(self, reference_block: BlockParameter, note_hash: Field) -> records.Base64 | None:
        """aztec_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
        return self.call(prepared5.get_note_hash_membership_witness(reference_block, note_hash))

    def get_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """aztec_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
        return self.call(prepared5.get_nullifier_membership_witness(reference_block, nullifier))

    def get_peers(self, include_pending: bool | None = None) -> list[records.PeerInfo]:
        """aztec_getPeers: The peers that are connected."""
        return self.call(prepared5.get_peers(include_pending))

    def get_pending_tx_count(self) -> int:
        """aztec_getPendingTxCount: How many transactions are pending."""
        return self.call(prepared5.get_pending_tx_count())

    def get_pending_txs(self, limit: int | None = None, after: Field | None = None, options: Mapping[str, bool] | None = None) -> list[records.Tx]:
        """aztec_getPendingTxs: Pending transactions by falling priority, after the one named."""
        return self.call(prepared5.get_pending_txs(limit, after, options))

    def get_predicted_min_fees(self, mana_usage: int | str | None = None) -> list[records.GasFees] | None:
        """aztec_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
        return self.call(prepared5.get_predicted_min_fees(mana_usage))

    def get_private_logs_by_tags(self, query: Mapping[str, Any]) -> list[list[records.LogResult]]:
        """aztec_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, up to twenty per tag, with their places."""
        return self.call(prepared5.get_private_logs_by_tags(query))

    def get_proposals_for_slot(self, slot: int) -> records.ProposalsForSlot:
        """aztec_getProposalsForSlot: Proposals of a slot that peers have sent, in their binary form."""
        return self.call(prepared5.get_proposals_for_slot(slot))

    def get_protocol_contract_addresses(self) -> records.ProtocolContractAddresses:
        """aztec_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
        return self.call(prepared5.get_protocol_contract_addresses())

    def get_public_data_witness(self, reference_block: BlockParameter, leaf_slot: Field) -> records.PublicDataWitness | None:
        """aztec_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
        return self.call(prepared5.get_public_data_witness(reference_block, leaf_slot))

    def get_public_events(self, filter_: Mapping[str, Any]) -> records.GetPublicEventsResponse:
        """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
        return self.call(prepared5.get_public_events(filter_))

    def get_public_logs_by_tags(self, query: Mapping[str, Any]) -> list[list[records.LogResult]]:
        """aztec_getPublicLogsByTags: Public logs of a contract whose first field is one of the tags given, with their places."""
        return self.call(prepared5.get_public_logs_by_tags(query))

    def get_public_storage_at(self, reference_block: BlockParameter, contract: Field, slot: Field) -> records.Fr:
        """aztec_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
        return self.call(prepared5.get_public_storage_at(reference_block, contract, slot))

    def get_slash_offenses(self, round: int | str) -> list[records.Offense]:
        """aztecAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
        return self.call(prepared5.get_slash_offenses(round))

    def get_sync_status(self) -> records.SyncStatus:
        """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
        return self.call(prepared5.get_sync_status())

    def get_synced_l1_timestamp(self) -> records.BigInt | None:
        """aztec_getSyncedL1Timestamp: Time of L1's newest block that has been read, in seconds."""
        return self.call(prepared5.get_synced_l1_timestamp())

    def get_synced_l2_epoch_number(self) -> int | None:
        """aztec_getSyncedL2EpochNumber: The last epoch of which all of L1 has been read."""
        return self.call(prepared5.get_synced_l2_epoch_number())

    def get_synced_l2_slot_number(self) -> int | None:
        """aztec_getSyncedL2SlotNumber: The last slot of which all of L1 has been read."""
        return self.call(prepared5.get_synced_l2_slot_number())

    def get_tx_by_hash(self, tx_hash: Field, options: Mapping[str, bool] | None = None) -> records.Tx | None:
        """aztec_getTxByHash: A transaction that waits, or is mined but not yet final."""
        return self.call(prepared5.get_tx_by_hash(tx_hash, options))

    def get_tx_effect(self, tx_hash: Field) -> records.IndexedTxEffect | None:
        """aztec_getTxEffect: Everything that a mined transaction changed."""
        return self.call(prepared5.get_tx_effect(tx_hash))

    def get_tx_effect_membership_witness(self, tx_hash: Field) -> records.TxEffectMembershipWitness | None:
        """aztec_getTxEffectMembershipWitness: Proof that a block has a transaction with its effects, against the root in the block's header. Only in 6.x."""
        return self.call(prepared5.get_tx_effect_membership_witness(tx_hash))

    def get_tx_receipt(self, tx_hash: Field, options: Mapping[str, bool] | None = None) -> records.MinedTxReceipt | records.PendingTxReceipt | records.DroppedTxReceipt:
        """aztec_getTxReceipt: What became of a transaction: mined, pending or dropped, with what the options ask for."""
        return self.call(prepared5.get_tx_receipt(tx_hash, options))

    def get_txs_by_hash(self, tx_hashes: Sequence[Field], options: Mapping[str, bool] | None = None) -> list[records.Tx]:
        """aztec_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
        return self.call(prepared5.get_txs_by_hash(tx_hashes, options))

    def get_validator_stats(self, validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> records.EpochValidatorStats | None:
        """aztec_getValidatorStats: What one validator did."""
        return self.call(prepared5.get_validator_stats(validator_address, from_slot, to_slot))

    def get_validator_stats_batch(self, validator_addresses: Sequence[str], from_slot: int | None = None, to_slot: int | None = None) -> list[records.EpochValidatorStats | None]:
        """aztec_getValidatorStatsBatch: What each of several validators did, over one range of slots; null for one without statistics. Only in 6.x."""
        return self.call(prepared5.get_validator_stats_batch(validator_addresses, from_slot, to_slot))

    def get_validators_stats(self) -> records.ValidatorsStats:
        """aztec_getValidatorsStats: What each validator did in the last slots."""
        return self.call(prepared5.get_validators_stats())

    def get_version(self) -> int:
        """aztec_getVersion: Version number of the rollup."""
        return self.call(prepared5.get_version())

    def get_world_state_sync_status(self) -> records.WorldStateSyncStatus:
        """aztec_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
        return self.call(prepared5.get_world_state_sync_status())

    def is_ready(self) -> bool:
        """aztec_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
        return self.call(prepared5.is_ready())

    def is_valid_tx(self, tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> records.TxValidationResult:
        """aztec_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
        return self.call(prepared5.is_valid_tx(tx, options))

    def pause_sequencer(self) -> None:
        """aztecAdmin_pauseSequencer: Build no more blocks; transactions go on waiting."""
        return self.call(prepared5.pause_sequencer())

    def pause_sync(self) -> None:
        """aztecAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
        return self.call(prepared5.pause_sync())

    def register_artifact(self, artifact: Mapping[str, Any], class_id: Field | None = None) -> records.RegisteredArtifact:
        """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
        return self.call(prepared5.register_artifact(artifact, class_id))

    def reload_keystore(self) -> None:
        """aztecAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
        return self.call(prepared5.reload_keystore())

    def resume_sequencer(self) -> None:
        """aztecAdmin_resumeSequencer: Build blocks again."""
        return self.call(prepared5.resume_sequencer())

    def resume_sync(self) -> None:
        """aztecAdmin_resumeSync: Go on ingesting."""
        return self.call(prepared5.resume_sync())

    def rollback_to(self, target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> None:
        """aztecAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
        return self.call(prepared5.rollback_to(target_block_number, force, resume_sync))

    def send_tx(self, tx: Mapping[str, Any]) -> None:
        """aztec_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
        return self.call(prepared5.send_tx(tx))

    def set_config(self, config: Mapping[str, Any]) -> None:
        """aztecAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
        return self.call(prepared5.set_config(config))

    def simulate_public_calls(self, tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None, overrides: Mapping[str, Any] | None = None) -> records.PublicSimulationOutput:
        """aztec_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
        return self.call(prepared5.simulate_public_calls(tx, skip_fee_enforcement, overrides))

    def start_snapshot_upload(self, location: str) -> None:
        """aztecAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
        return self.call(prepared5.start_snapshot_upload(location))

    def trace_block(self, block_number: int, options: Mapping[str, Any] | None = None) -> list[records.TransactionTrace] | None:
        """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
        return self.call(prepared5.trace_block(block_number, options))

    def trace_call(self, tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> records.TransactionTrace:
        """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
        return self.call(prepared5.trace_call(tx, options))

    def trace_transaction(self, tx_hash: Field, options: Mapping[str, Any] | None = None) -> records.TransactionTrace | None:
        """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
        return self.call(prepared5.trace_transaction(tx_hash, options))


class AsyncMethods5:
    async def call(self, call: Call[T]) -> T:
        """Make a call."""
        raise NotImplementedError

    async def discover(self) -> Any:
        """rpc.discover: This interface as an OpenRPC document."""
        return await self.call(prepared5.discover())

    async def find_leaves_indexes(self, reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> list[records.DataInBlock | None]:
        """aztec_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
        return await self.call(prepared5.find_leaves_indexes(reference_block, tree_id, leaf_values))

    async def get_allowed_public_setup(self) -> list[records.AllowedElement]:
        """aztec_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
        return await self.call(prepared5.get_allowed_public_setup())

    async def get_block(self, block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> records.BlockResponse | None:
        """aztec_getBlock: One block."""
        return await self.call(prepared5.get_block(block_parameter, options))

    async def get_block_data(self, block_parameter: BlockParameter) -> records.BlockData | None:
        """aztec_getBlockData: A block without its transactions."""
        return await self.call(prepared5.get_block_data(block_parameter))

    async def get_block_hash_membership_witness(self, reference_block: BlockParameter, block_hash: Field) -> records.Base64 | None:
        """aztec_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
        return await self.call(prepared5.get_block_hash_membership_witness(reference_block, block_hash))

    async def get_block_hash_membership_witness_at_archive(self, reference: Mapping[str, str], block_hash: Field) -> records.Base64 | None:
        """aztec_getBlockHashMembershipWitnessAtArchive: Proof that a block is in the archive with this root: the one after some block, which has that block. Only in 6.x."""
        return await self.call(prepared5.get_block_hash_membership_witness_at_archive(reference, block_hash))

    async def get_block_number(self, tip: str | None = None) -> int:
        """aztec_getBlockNumber: Number of the newest block, or of the block of a tip."""
        return await self.call(prepared5.get_block_number(tip))

    async def get_blocks(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.BlockResponse]:
        """aztec_getBlocks: Consecutive blocks."""
        return await self.call(prepared5.get_blocks(from_, limit, options))

    async def get_chain_id(self) -> int:
        """aztec_getChainId: Chain id of L1."""
        return await self.call(prepared5.get_chain_id())

    async def get_chain_tips(self) -> records.ChainTips:
        """aztec_getChainTips: Numbers and hashes of the four tips."""
        return await self.call(prepared5.get_chain_tips())

    async def get_checkpoint(self, checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> records.CheckpointResponse | None:
        """aztec_getCheckpoint: One checkpoint by number, slot or tip."""
        return await self.call(prepared5.get_checkpoint(checkpoint_parameter, options))

    async def get_checkpoint_attestations_for_slot(self, slot: int, proposal_payload_hash: Field | None = None) -> list[records.CheckpointAttestation]:
        """aztec_getCheckpointAttestationsForSlot: Attestations of a slot that peers have sent, one of each member of its committee."""
        return await self.call(prepared5.get_checkpoint_attestations_for_slot(slot, proposal_payload_hash))

    async def get_checkpoint_number(self, tip: str | None = None) -> int:
        """aztec_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
        return await self.call(prepared5.get_checkpoint_number(tip))

    async def get_checkpoints(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.CheckpointResponse]:
        """aztec_getCheckpoints: Consecutive complete checkpoints."""
        return await self.call(prepared5.get_checkpoints(from_, limit, options))

    async def get_checkpoints_data(self, query: Mapping[str, int | bool]) -> list[records.CheckpointData]:
        """aztec_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
        return await self.call(prepared5.get_checkpoints_data(query))

    async def get_config(self) -> dict[str, Any]:
        """aztecAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
        return await self.call(prepared5.get_config())

    async def get_contract(self, address: Field, reference_block: BlockParameter | None = None) -> records.ContractInstanceWithAddress | None:
        """aztec_getContract: A contract that the chain has published, with its class at a block, or at the newest."""
        return await self.call(prepared5.get_contract(address, reference_block))

    async def get_contract_class(self, id_: Field) -> records.ContractClassPublic | None:
        """aztec_getContractClass: A contract class that the chain has published."""
        return await self.call(prepared5.get_contract_class(id_))

    async def get_current_min_fees(self) -> records.GasFees:
        """aztec_getCurrentMinFees: What a unit of gas costs at least now."""
        return await self.call(prepared5.get_current_min_fees())

    async def get_encoded_enr(self) -> str | None:
        """aztec_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
        return await self.call(prepared5.get_encoded_enr())

    async def get_genesis(self) -> dict[str, Any]:
        """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
        return await self.call(prepared5.get_genesis())

    async def get_kept_tx(self, tx_hash: Field) -> records.Tx | None:
        """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
        return await self.call(prepared5.get_kept_tx(tx_hash))

    async def get_l1_constants(self) -> records.L1RollupConstants:
        """aztec_getL1Constants: Durations and limits of the rollup."""
        return await self.call(prepared5.get_l1_constants())

    async def get_l1_contract_addresses(self) -> records.L1ContractAddresses:
        """aztec_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
        return await self.call(prepared5.get_l1_contract_addresses())

    async def get_l1_to_l2_message_checkpoint(self, l1_to_l2_message: Field) -> int | None:
        """aztec_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message. Only in 5.x."""
        return await self.call(prepared5.get_l1_to_l2_message_checkpoint(l1_to_l2_message))

    async def get_l1_to_l2_message_index(self, l1_to_l2_message: Field) -> records.BigInt | None:
        """aztec_getL1ToL2MessageIndex: Leaf index of an L1-to-L2 message, also before a block has inserted it. Only in 6.x."""
        return await self.call(prepared5.get_l1_to_l2_message_index(l1_to_l2_message))

    async def get_l1_to_l2_message_membership_witness(self, reference_block: BlockParameter, l1_to_l2_message: Field) -> list[records.BigInt | records.Base64] | None:
        """aztec_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
        return await self.call(prepared5.get_l1_to_l2_message_membership_witness(reference_block, l1_to_l2_message))

    async def get_l1_to_l2_messages(self, checkpoint_number: int) -> list[records.Fr] | None:
        """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
        return await self.call(prepared5.get_l1_to_l2_messages(checkpoint_number))

    async def get_l2_to_l1_membership_witness(self, tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> records.L2ToL1MembershipWitness | None:
        """aztec_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
        return await self.call(prepared5.get_l2_to_l1_membership_witness(tx_hash, message, message_index_in_tx))

    async def get_l2_to_l1_messages(self, epoch: int) -> list[list[list[list[records.Fr]]]]:
        """aztec_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
        return await self.call(prepared5.get_l2_to_l1_messages(epoch))

    async def get_low_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """aztec_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
        return await self.call(prepared5.get_low_nullifier_membership_witness(reference_block, nullifier))

    async def get_max_priority_fees(self) -> records.GasFees:
        """aztec_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
        return await self.call(prepared5.get_max_priority_fees())

    async def get_node_info(self) -> records.NodeInfo:
        """aztec_getNodeInfo: Versions and addresses of the network."""
        return await self.call(prepared5.get_node_info())

    async def get_node_version(self) -> str:
        """aztec_getNodeVersion: Node version of the network."""
        return await self.call(prepared5.get_node_version())

    async def get_note_hash_membership_witness(self, reference_block: BlockParameter, note_hash: Field) -> records.Base64 | None:
        """aztec_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
        return await self.call(prepared5.get_note_hash_membership_witness(reference_block, note_hash))

    async def get_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """aztec_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
        return await self.call(prepared5.get_nullifier_membership_witness(reference_block, nullifier))

    async def get_peers(self, include_pending: bool | None = None) -> list[records.PeerInfo]:
        """aztec_getPeers: The peers that are connected."""
        return await self.call(prepared5.get_peers(include_pending))

    async def get_pending_tx_count(self) -> int:
        """aztec_getPendingTxCount: How many transactions are pending."""
        return await self.call(prepared5.get_pending_tx_count())

    async def get_pending_txs(self, limit: int | None = None, after: Field | None = None, options: Mapping[str, bool] | None = None) -> list[records.Tx]:
        """aztec_getPendingTxs: Pending transactions by falling priority, after the one named."""
        return await self.call(prepared5.get_pending_txs(limit, after, options))

    async def get_predicted_min_fees(self, mana_usage: int | str | None = None) -> list[records.GasFees] | None:
        """aztec_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
        return await self.call(prepared5.get_predicted_min_fees(mana_usage))

    async def get_private_logs_by_tags(self, query: Mapping[str, Any]) -> list[list[records.LogResult]]:
        """aztec_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, up to twenty per tag, with their places."""
        return await self.call(prepared5.get_private_logs_by_tags(query))

    async def get_proposals_for_slot(self, slot: int) -> records.ProposalsForSlot:
        """aztec_getProposalsForSlot: Proposals of a slot that peers have sent, in their binary form."""
        return await self.call(prepared5.get_proposals_for_slot(slot))

    async def get_protocol_contract_addresses(self) -> records.ProtocolContractAddresses:
        """aztec_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
        return await self.call(prepared5.get_protocol_contract_addresses())

    async def get_public_data_witness(self, reference_block: BlockParameter, leaf_slot: Field) -> records.PublicDataWitness | None:
        """aztec_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
        return await self.call(prepared5.get_public_data_witness(reference_block, leaf_slot))

    async def get_public_events(self, filter_: Mapping[str, Any]) -> records.GetPublicEventsResponse:
        """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
        return await self.call(prepared5.get_public_events(filter_))

    async def get_public_logs_by_tags(self, query: Mapping[str, Any]) -> list[list[records.LogResult]]:
        """aztec_getPublicLogsByTags: Public logs of a contract whose first field is one of the tags given, with their places."""
        return await self.call(prepared5.get_public_logs_by_tags(query))

    async def get_public_storage_at(self, reference_block: BlockParameter, contract: Field, slot: Field) -> records.Fr:
        """aztec_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
        return await self.call(prepared5.get_public_storage_at(reference_block, contract, slot))

    async def get_slash_offenses(self, round: int | str) -> list[records.Offense]:
        """aztecAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
        return await self.call(prepared5.get_slash_offenses(round))

    async def get_sync_status(self) -> records.SyncStatus:
        """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
        return await self.call(prepared5.get_sync_status())

    async def get_synced_l1_timestamp(self) -> records.BigInt | None:
        """aztec_getSyncedL1Timestamp: Time of L1's newest block that has been read, in seconds."""
        return await self.call(prepared5.get_synced_l1_timestamp())

    async def get_synced_l2_epoch_number(self) -> int | None:
        """aztec_getSyncedL2EpochNumber: The last epoch of which all of L1 has been read."""
        return await self.call(prepared5.get_synced_l2_epoch_number())

    async def get_synced_l2_slot_number(self) -> int | None:
        """aztec_getSyncedL2SlotNumber: The last slot of which all of L1 has been read."""
        return await self.call(prepared5.get_synced_l2_slot_number())

    async def get_tx_by_hash(self, tx_hash: Field, options: Mapping[str, bool] | None = None) -> records.Tx | None:
        """aztec_getTxByHash: A transaction that waits, or is mined but not yet final."""
        return await self.call(prepared5.get_tx_by_hash(tx_hash, options))

    async def get_tx_effect(self, tx_hash: Field) -> records.IndexedTxEffect | None:
        """aztec_getTxEffect: Everything that a mined transaction changed."""
        return await self.call(prepared5.get_tx_effect(tx_hash))

    async def get_tx_effect_membership_witness(self, tx_hash: Field) -> records.TxEffectMembershipWitness | None:
        """aztec_getTxEffectMembershipWitness: Proof that a block has a transaction with its effects, against the root in the block's header. Only in 6.x."""
        return await self.call(prepared5.get_tx_effect_membership_witness(tx_hash))

    async def get_tx_receipt(self, tx_hash: Field, options: Mapping[str, bool] | None = None) -> records.MinedTxReceipt | records.PendingTxReceipt | records.DroppedTxReceipt:
        """aztec_getTxReceipt: What became of a transaction: mined, pending or dropped, with what the options ask for."""
        return await self.call(prepared5.get_tx_receipt(tx_hash, options))

    async def get_txs_by_hash(self, tx_hashes: Sequence[Field], options: Mapping[str, bool] | None = None) -> list[records.Tx]:
        """aztec_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
        return await self.call(prepared5.get_txs_by_hash(tx_hashes, options))

    async def get_validator_stats(self, validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> records.EpochValidatorStats | None:
        """aztec_getValidatorStats: What one validator did."""
        return await self.call(prepared5.get_validator_stats(validator_address, from_slot, to_slot))

    async def get_validator_stats_batch(self, validator_addresses: Sequence[str], from_slot: int | None = None, to_slot: int | None = None) -> list[records.EpochValidatorStats | None]:
        """aztec_getValidatorStatsBatch: What each of several validators did, over one range of slots; null for one without statistics. Only in 6.x."""
        return await self.call(prepared5.get_validator_stats_batch(validator_addresses, from_slot, to_slot))

    async def get_validators_stats(self) -> records.ValidatorsStats:
        """aztec_getValidatorsStats: What each validator did in the last slots."""
        return await self.call(prepared5.get_validators_stats())

    async def get_version(self) -> int:
        """aztec_getVersion: Version number of the rollup."""
        return await self.call(prepared5.get_version())

    async def get_world_state_sync_status(self) -> records.WorldStateSyncStatus:
        """aztec_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
        return await self.call(prepared5.get_world_state_sync_status())

    async def is_ready(self) -> bool:
        """aztec_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
        return await self.call(prepared5.is_ready())

    async def is_valid_tx(self, tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> records.TxValidationResult:
        """aztec_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
        return await self.call(prepared5.is_valid_tx(tx, options))

    async def pause_sequencer(self) -> None:
        """aztecAdmin_pauseSequencer: Build no more blocks; transactions go on waiting."""
        return await self.call(prepared5.pause_sequencer())

    async def pause_sync(self) -> None:
        """aztecAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
        return await self.call(prepared5.pause_sync())

    async def register_artifact(self, artifact: Mapping[str, Any], class_id: Field | None = None) -> records.RegisteredArtifact:
        """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
        return await self.call(prepared5.register_artifact(artifact, class_id))

    async def reload_keystore(self) -> None:
        """aztecAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
        return await self.call(prepared5.reload_keystore())

    async def resume_sequencer(self) -> None:
        """aztecAdmin_resumeSequencer: Build blocks again."""
        return await self.call(prepared5.resume_sequencer())

    async def resume_sync(self) -> None:
        """aztecAdmin_resumeSync: Go on ingesting."""
        return await self.call(prepared5.resume_sync())

    async def rollback_to(self, target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> None:
        """aztecAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
        return await self.call(prepared5.rollback_to(target_block_number, force, resume_sync))

    async def send_tx(self, tx: Mapping[str, Any]) -> None:
        """aztec_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
        return await self.call(prepared5.send_tx(tx))

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """aztecAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
        return await self.call(prepared5.set_config(config))

    async def simulate_public_calls(self, tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None, overrides: Mapping[str, Any] | None = None) -> records.PublicSimulationOutput:
        """aztec_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
        return await self.call(prepared5.simulate_public_calls(tx, skip_fee_enforcement, overrides))

    async def start_snapshot_upload(self, location: str) -> None:
        """aztecAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
        return await self.call(prepared5.start_snapshot_upload(location))

    async def trace_block(self, block_number: int, options: Mapping[str, Any] | None = None) -> list[records.TransactionTrace] | None:
        """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
        return await self.call(prepared5.trace_block(block_number, options))

    async def trace_call(self, tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> records.TransactionTrace:
        """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
        return await self.call(prepared5.trace_call(tx, options))

    async def trace_transaction(self, tx_hash: Field, options: Mapping[str, Any] | None = None) -> records.TransactionTrace | None:
        """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
        return await self.call(prepared5.trace_transaction(tx_hash, options))
