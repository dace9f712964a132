# Made by scripts/make-docs from the method table: change that instead.
"""Every method of a node as a method of the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastnode.client import prepared, records
from fastnode.client.calls import Call
from fastnode.client.prepared import BlockParameter, Field

T = TypeVar("T")


class SyncMethods:
    def call(self, call: Call[T]) -> T:
        """Make a call."""
        raise NotImplementedError

    def discover(self) -> Any:
        """rpc.discover: This interface as an OpenRPC document."""
        return self.call(prepared.discover())

    def find_leaves_indexes(self, reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> list[records.DataInBlock | None]:
        """node_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
        return self.call(prepared.find_leaves_indexes(reference_block, tree_id, leaf_values))

    def get_allowed_public_setup(self) -> list[records.AllowedElement]:
        """node_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
        return self.call(prepared.get_allowed_public_setup())

    def get_block(self, block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> records.L2Block | records.BlockResponse | None:
        """node_getBlock: One block."""
        return self.call(prepared.get_block(block_parameter, options))

    def get_block_by_archive(self, archive: Field) -> records.L2Block | None:
        """node_getBlockByArchive: The block after which the archive tree has a root."""
        return self.call(prepared.get_block_by_archive(archive))

    def get_block_by_hash(self, block_hash: Field) -> records.L2Block | None:
        """node_getBlockByHash: The block with a header hash."""
        return self.call(prepared.get_block_by_hash(block_hash))

    def get_block_data(self, block_parameter: BlockParameter) -> records.BlockData | None:
        """node_getBlockData: A block without its transactions."""
        return self.call(prepared.get_block_data(block_parameter))

    def get_block_hash_membership_witness(self, reference_block: BlockParameter, block_hash: Field) -> records.Base64 | None:
        """node_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
        return self.call(prepared.get_block_hash_membership_witness(reference_block, block_hash))

    def get_block_header(self, block: BlockParameter | None = None) -> records.BlockHeader | None:
        """node_getBlockHeader: The header of one block; of the newest without a parameter."""
        return self.call(prepared.get_block_header(block))

    def get_block_header_by_archive(self, archive: Field) -> records.BlockHeader | None:
        """node_getBlockHeaderByArchive: The header of the block after which the archive tree has a root."""
        return self.call(prepared.get_block_header_by_archive(archive))

    def get_block_number(self, tip: str | None = None) -> int:
        """node_getBlockNumber: Number of the newest block, or of the block of a tip."""
        return self.call(prepared.get_block_number(tip))

    def get_blocks(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.L2Block] | list[records.BlockResponse]:
        """node_getBlocks: Consecutive blocks."""
        return self.call(prepared.get_blocks(from_, limit, options))

    def get_chain_id(self) -> int:
        """node_getChainId: Chain id of L1."""
        return self.call(prepared.get_chain_id())

    def get_chain_tips(self) -> records.ChainTips:
        """node_getChainTips: Numbers and hashes of the four tips."""
        return self.call(prepared.get_chain_tips())

    def get_checkpoint(self, checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> records.CheckpointResponse | None:
        """node_getCheckpoint: One checkpoint by number, slot or tip."""
        return self.call(prepared.get_checkpoint(checkpoint_parameter, options))

    def get_checkpoint_number(self, tip: str | None = None) -> int:
        """node_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
        return self.call(prepared.get_checkpoint_number(tip))

    def get_checkpointed_block_number(self) -> int:
        """node_getCheckpointedBlockNumber: Number of the last block in a complete checkpoint."""
        return self.call(prepared.get_checkpointed_block_number())

    def get_checkpointed_blocks(self, from_: int, limit: int) -> list[records.CheckpointedL2Block]:
        """node_getCheckpointedBlocks: Consecutive blocks that are in a complete checkpoint, with what L1 says about it."""
        return self.call(prepared.get_checkpointed_blocks(from_, limit))

    def get_checkpoints(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.PublishedCheckpoint] | list[records.CheckpointResponse]:
        """node_getCheckpoints: Consecutive complete checkpoints."""
        return self.call(prepared.get_checkpoints(from_, limit, options))

    def get_checkpoints_data(self, query: Mapping[str, int]) -> list[records.CheckpointData]:
        """node_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
        return self.call(prepared.get_checkpoints_data(query))

    def get_checkpoints_data_for_epoch(self, epoch_number: int) -> list[records.CheckpointData]:
        """node_getCheckpointsDataForEpoch: Complete checkpoints of an epoch without their blocks."""
        return self.call(prepared.get_checkpoints_data_for_epoch(epoch_number))

    def get_config(self) -> dict[str, Any]:
        """nodeAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
        return self.call(prepared.get_config())

    def get_contract(self, address: Field) -> records.ContractInstanceWithAddress | None:
        """node_getContract: A contract that the chain has published, with its class at the newest block."""
        return self.call(prepared.get_contract(address))

    def get_contract_class(self, id_: Field) -> records.ContractClassPublic | None:
        """node_getContractClass: A contract class that the chain has published."""
        return self.call(prepared.get_contract_class(id_))

    def get_contract_class_logs(self, filter_: Mapping[str, Any]) -> records.GetContractClassLogsResponse:
        """node_getContractClassLogs: Contract class logs of a block range or a transaction, narrowed to a contract."""
        return self.call(prepared.get_contract_class_logs(filter_))

    def get_current_min_fees(self) -> records.GasFees:
        """node_getCurrentMinFees: What a unit of gas costs at least now."""
        return self.call(prepared.get_current_min_fees())

    def get_encoded_enr(self) -> str | None:
        """node_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
        return self.call(prepared.get_encoded_enr())

    def get_genesis(self) -> dict[str, Any]:
        """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
        return self.call(prepared.get_genesis())

    def get_kept_tx(self, tx_hash: Field) -> records.Tx | None:
        """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
        return self.call(prepared.get_kept_tx(tx_hash))

    def get_l1_contract_addresses(self) -> records.L1ContractAddresses:
        """node_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
        return self.call(prepared.get_l1_contract_addresses())

    def get_l1_to_l2_message_checkpoint(self, l1_to_l2_message: Field) -> int | None:
        """node_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message."""
        return self.call(prepared.get_l1_to_l2_message_checkpoint(l1_to_l2_message))

    def get_l1_to_l2_message_membership_witness(self, reference_block: BlockParameter, l1_to_l2_message: Field) -> list[records.BigInt | records.Base64] | None:
        """node_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
        return self.call(prepared.get_l1_to_l2_message_membership_witness(reference_block, l1_to_l2_message))

    def get_l1_to_l2_messages(self, checkpoint_number: int) -> list[records.Fr] | None:
        """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
        return self.call(prepared.get_l1_to_l2_messages(checkpoint_number))

    def get_l2_tips(self) -> records.L2Tips:
        """node_getL2Tips: Numbers and hashes of the four tips."""
        return self.call(prepared.get_l2_tips())

    def get_l2_to_l1_membership_witness(self, tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> records.L2ToL1MembershipWitness | None:
        """node_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
        return self.call(prepared.get_l2_to_l1_membership_witness(tx_hash, message, message_index_in_tx))

    def get_l2_to_l1_messages(self, epoch: int) -> list[list[list[list[records.Fr]]]]:
        """node_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
        return self.call(prepared.get_l2_to_l1_messages(epoch))

    def get_low_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """node_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
        return self.call(prepared.get_low_nullifier_membership_witness(reference_block, nullifier))

    def get_max_priority_fees(self) -> records.GasFees:
        """node_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
        return self.call(prepared.get_max_priority_fees())

    def get_node_info(self) -> records.NodeInfo:
        """node_getNodeInfo: Versions and addresses of the network."""
        return self.call(prepared.get_node_info())

    def get_node_version(self) -> str:
        """node_getNodeVersion: Node version of the network."""
        return self.call(prepared.get_node_version())

    def get_note_hash_membership_witness(self, reference_block: BlockParameter, note_hash: Field) -> records.Base64 | None:
        """node_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
        return self.call(prepared.get_note_hash_membership_witness(reference_block, note_hash))

    def get_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """node_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
        return self.call(prepared.get_nullifier_membership_witness(reference_block, nullifier))

    def get_pending_tx_count(self) -> int:
        """node_getPendingTxCount: How many transactions are pending."""
        return self.call(prepared.get_pending_tx_count())

    def get_pending_txs(self, limit: int | None = None, after: Field | None = None) -> list[records.Tx]:
        """node_getPendingTxs: Pending transactions by falling priority, after the one named."""
        return self.call(prepared.get_pending_txs(limit, after))

    def get_predicted_min_fees(self, mana_usage: int | str | None = None) -> list[records.GasFees] | None:
        """node_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
        return self.call(prepared.get_predicted_min_fees(mana_usage))

    def get_private_logs_by_tags(self, tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> list[list[records.TxScopedL2Log]]:
        """node_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, ten per tag and page."""
        return self.call(prepared.get_private_logs_by_tags(tags, page, reference_block))

    def get_protocol_contract_addresses(self) -> records.ProtocolContractAddresses:
        """node_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
        return self.call(prepared.get_protocol_contract_addresses())

    def get_proven_block_number(self) -> int:
        """node_getProvenBlockNumber: Number of the last proven block."""
        return self.call(prepared.get_proven_block_number())

    def get_public_data_witness(self, reference_block: BlockParameter, leaf_slot: Field) -> records.PublicDataWitness | None:
        """node_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
        return self.call(prepared.get_public_data_witness(reference_block, leaf_slot))

    def get_public_events(self, filter_: Mapping[str, Any]) -> records.GetPublicEventsResponse:
        """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
        return self.call(prepared.get_public_events(filter_))

    def get_public_logs(self, filter_: Mapping[str, Any]) -> records.GetPublicLogsResponse:
        """node_getPublicLogs: Public logs of a block range or a transaction, narrowed to a contract and a tag."""
        return self.call(prepared.get_public_logs(filter_))

    def get_public_logs_by_tags_from_contract(self, contract_address: Field, tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> list[list[records.TxScopedL2Log]]:
        """node_getPublicLogsByTagsFromContract: Public logs of a contract whose first field is one of the tags given, ten per tag and page."""
        return self.call(prepared.get_public_logs_by_tags_from_contract(contract_address, tags, page, reference_block))

    def get_public_storage_at(self, reference_block: BlockParameter, contract: Field, slot: Field) -> records.Fr:
        """node_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
        return self.call(prepared.get_public_storage_at(reference_block, contract, slot))

    def get_slash_offenses(self, round: int | str) -> list[records.Offense]:
        """nodeAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
        return self.call(prepared.get_slash_offenses(round))

    def get_slash_payloads(self) -> list[records.SlashPayloadRound]:
        """nodeAdmin_getSlashPayloads: Payloads that are voted on in this round; an error where votes are tallied per validator."""
        return self.call(prepared.get_slash_payloads())

    def get_sync_status(self) -> records.SyncStatus:
        """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
        return self.call(prepared.get_sync_status())

    def get_tx_by_hash(self, tx_hash: Field) -> records.Tx | None:
        """node_getTxByHash: A transaction that waits, or is mined but not yet final."""
        return self.call(prepared.get_tx_by_hash(tx_hash))

    def get_tx_effect(self, tx_hash: Field) -> records.IndexedTxEffect | None:
        """node_getTxEffect: Everything that a mined transaction changed."""
        return self.call(prepared.get_tx_effect(tx_hash))

    def get_tx_receipt(self, tx_hash: Field) -> records.TxReceipt:
        """node_getTxReceipt: What became of a transaction: pending, dropped, or mined with its fee and block."""
        return self.call(prepared.get_tx_receipt(tx_hash))

    def get_txs_by_hash(self, tx_hashes: Sequence[Field]) -> list[records.Tx]:
        """node_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
        return self.call(prepared.get_txs_by_hash(tx_hashes))

    def get_validator_stats(self, validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> records.SingleValidatorStats | None:
        """node_getValidatorStats: What one validator did."""
        return self.call(prepared.get_validator_stats(validator_address, from_slot, to_slot))

    def get_validators_stats(self) -> records.ValidatorsStats:
        """node_getValidatorsStats: What each validator did in the last slots."""
        return self.call(prepared.get_validators_stats())

    def get_version(self) -> int:
        """node_getVersion: Version number of the rollup."""
        return self.call(prepared.get_version())

    def get_world_state_sync_status(self) -> records.WorldStateSyncStatus:
        """node_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
        return self.call(prepared.get_world_state_sync_status())

    def is_l1_to_l2_message_synced(self, l1_to_l2_message: Field) -> bool:
        """node_isL1ToL2MessageSynced: Whether the node knows an L1-to-L2 message."""
        return self.call(prepared.is_l1_to_l2_message_synced(l1_to_l2_message))

    def is_ready(self) -> bool:
        """node_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
        return self.call(prepared.is_ready())

    def is_valid_tx(self, tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> records.TxValidationResult:
        """node_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
        return self.call(prepared.is_valid_tx(tx, options))

    def pause_sync(self) -> None:
        """nodeAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
        return self.call(prepared.pause_sync())

    def register_artifact(self, artifact: Mapping[str, Any], class_id: Field | None = None) -> records.RegisteredArtifact:
        """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
        return self.call(prepared.register_artifact(artifact, class_id))

    def register_contract_function_signatures(self, function_signatures: Sequence[str]) -> None:
        """node_registerContractFunctionSignatures: Name contract functions, for texts that people read."""
        return self.call(prepared.register_contract_function_signatures(function_signatures))

    def reload_keystore(self) -> None:
        """nodeAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
        return self.call(prepared.reload_keystore())

    def resume_sync(self) -> None:
        """nodeAdmin_resumeSync: Go on ingesting."""
        return self.call(prepared.resume_sync())

    def rollback_to(self, target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> None:
        """nodeAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
        return self.call(prepared.rollback_to(target_block_number, force, resume_sync))

    def send_tx(self, tx: Mapping[str, Any]) -> None:
        """node_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
        return self.call(prepared.send_tx(tx))

    def set_config(self, config: Mapping[str, Any]) -> None:
        """nodeAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
        return self.call(prepared.set_config(config))

    def simulate_public_calls(self, tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None) -> records.PublicSimulationOutput:
        """node_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
        return self.call(prepared.simulate_public_calls(tx, skip_fee_enforcement))

    def start_snapshot_upload(self, location: str) -> None:
        """nodeAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
        return self.call(prepared.start_snapshot_upload(location))

    def trace_block(self, block_number: int, options: Mapping[str, Any] | None = None) -> list[records.TransactionTrace] | None:
        """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
        return self.call(prepared.trace_block(block_number, options))

    def trace_call(self, tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> records.TransactionTrace:
        """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
        return self.call(prepared.trace_call(tx, options))

    def trace_transaction(self, tx_hash: Field, options: Mapping[str, Any] | None = None) -> records.TransactionTrace | None:
        """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
        return self.call(prepared.trace_transaction(tx_hash, options))


class AsyncMethods:
    async def call(self, call: Call[T]) -> T:
        """Make a call."""
        raise NotImplementedError

    async def discover(self) -> Any:
        """rpc.discover: This interface as an OpenRPC document."""
        return await self.call(prepared.discover())

    async def find_leaves_indexes(self, reference_block: BlockParameter, tree_id: int, leaf_values: Sequence[Field]) -> list[records.DataInBlock | None]:
        """node_findLeavesIndexes: Index of each leaf in a tree, and the block that inserted it; null for one that is not there."""
        return await self.call(prepared.find_leaves_indexes(reference_block, tree_id, leaf_values))

    async def get_allowed_public_setup(self) -> list[records.AllowedElement]:
        """node_getAllowedPublicSetup: The public calls that a transaction may make before its fee is secured."""
        return await self.call(prepared.get_allowed_public_setup())

    async def get_block(self, block_parameter: BlockParameter, options: Mapping[str, bool] | None = None) -> records.L2Block | records.BlockResponse | None:
        """node_getBlock: One block."""
        return await self.call(prepared.get_block(block_parameter, options))

    async def get_block_by_archive(self, archive: Field) -> records.L2Block | None:
        """node_getBlockByArchive: The block after which the archive tree has a root."""
        return await self.call(prepared.get_block_by_archive(archive))

    async def get_block_by_hash(self, block_hash: Field) -> records.L2Block | None:
        """node_getBlockByHash: The block with a header hash."""
        return await self.call(prepared.get_block_by_hash(block_hash))

    async def get_block_data(self, block_parameter: BlockParameter) -> records.BlockData | None:
        """node_getBlockData: A block without its transactions."""
        return await self.call(prepared.get_block_data(block_parameter))

    async def get_block_hash_membership_witness(self, reference_block: BlockParameter, block_hash: Field) -> records.Base64 | None:
        """node_getBlockHashMembershipWitness: Proof that a block is an ancestor of the reference block, in the archive its header names."""
        return await self.call(prepared.get_block_hash_membership_witness(reference_block, block_hash))

    async def get_block_header(self, block: BlockParameter | None = None) -> records.BlockHeader | None:
        """node_getBlockHeader: The header of one block; of the newest without a parameter."""
        return await self.call(prepared.get_block_header(block))

    async def get_block_header_by_archive(self, archive: Field) -> records.BlockHeader | None:
        """node_getBlockHeaderByArchive: The header of the block after which the archive tree has a root."""
        return await self.call(prepared.get_block_header_by_archive(archive))

    async def get_block_number(self, tip: str | None = None) -> int:
        """node_getBlockNumber: Number of the newest block, or of the block of a tip."""
        return await self.call(prepared.get_block_number(tip))

    async def get_blocks(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.L2Block] | list[records.BlockResponse]:
        """node_getBlocks: Consecutive blocks."""
        return await self.call(prepared.get_blocks(from_, limit, options))

    async def get_chain_id(self) -> int:
        """node_getChainId: Chain id of L1."""
        return await self.call(prepared.get_chain_id())

    async def get_chain_tips(self) -> records.ChainTips:
        """node_getChainTips: Numbers and hashes of the four tips."""
        return await self.call(prepared.get_chain_tips())

    async def get_checkpoint(self, checkpoint_parameter: int | str | Mapping[str, int], options: Mapping[str, bool] | None = None) -> records.CheckpointResponse | None:
        """node_getCheckpoint: One checkpoint by number, slot or tip."""
        return await self.call(prepared.get_checkpoint(checkpoint_parameter, options))

    async def get_checkpoint_number(self, tip: str | None = None) -> int:
        """node_getCheckpointNumber: Number of the newest complete checkpoint, or of the checkpoint of a tip."""
        return await self.call(prepared.get_checkpoint_number(tip))

    async def get_checkpointed_block_number(self) -> int:
        """node_getCheckpointedBlockNumber: Number of the last block in a complete checkpoint."""
        return await self.call(prepared.get_checkpointed_block_number())

    async def get_checkpointed_blocks(self, from_: int, limit: int) -> list[records.CheckpointedL2Block]:
        """node_getCheckpointedBlocks: Consecutive blocks that are in a complete checkpoint, with what L1 says about it."""
        return await self.call(prepared.get_checkpointed_blocks(from_, limit))

    async def get_checkpoints(self, from_: int, limit: int, options: Mapping[str, bool] | None = None) -> list[records.PublishedCheckpoint] | list[records.CheckpointResponse]:
        """node_getCheckpoints: Consecutive complete checkpoints."""
        return await self.call(prepared.get_checkpoints(from_, limit, options))

    async def get_checkpoints_data(self, query: Mapping[str, int]) -> list[records.CheckpointData]:
        """node_getCheckpointsData: Complete checkpoints without their blocks: a range, or those of an epoch."""
        return await self.call(prepared.get_checkpoints_data(query))

    async def get_checkpoints_data_for_epoch(self, epoch_number: int) -> list[records.CheckpointData]:
        """node_getCheckpointsDataForEpoch: Complete checkpoints of an epoch without their blocks."""
        return await self.call(prepared.get_checkpoints_data_for_epoch(epoch_number))

    async def get_config(self) -> dict[str, Any]:
        """nodeAdmin_getConfig: The configuration of the running node; what is not set and what is secret is left out."""
        return await self.call(prepared.get_config())

    async def get_contract(self, address: Field) -> records.ContractInstanceWithAddress | None:
        """node_getContract: A contract that the chain has published, with its class at the newest block."""
        return await self.call(prepared.get_contract(address))

    async def get_contract_class(self, id_: Field) -> records.ContractClassPublic | None:
        """node_getContractClass: A contract class that the chain has published."""
        return await self.call(prepared.get_contract_class(id_))

    async def get_contract_class_logs(self, filter_: Mapping[str, Any]) -> records.GetContractClassLogsResponse:
        """node_getContractClassLogs: Contract class logs of a block range or a transaction, narrowed to a contract."""
        return await self.call(prepared.get_contract_class_logs(filter_))

    async def get_current_min_fees(self) -> records.GasFees:
        """node_getCurrentMinFees: What a unit of gas costs at least now."""
        return await self.call(prepared.get_current_min_fees())

    async def get_encoded_enr(self) -> str | None:
        """node_getEncodedEnr: The record of this node, or of the followed one, on the peer-to-peer network; absent without one."""
        return await self.call(prepared.get_encoded_enr())

    async def get_genesis(self) -> dict[str, Any]:
        """fastnode_getGenesis: The network and the state before block 1, as a chain file has them."""
        return await self.call(prepared.get_genesis())

    async def get_kept_tx(self, tx_hash: Field) -> records.Tx | None:
        """fastnode_getKeptTx: A transaction with its calldata, also when it is final, if this node keeps it."""
        return await self.call(prepared.get_kept_tx(tx_hash))

    async def get_l1_contract_addresses(self) -> records.L1ContractAddresses:
        """node_getL1ContractAddresses: Addresses of the rollup's contracts on L1."""
        return await self.call(prepared.get_l1_contract_addresses())

    async def get_l1_to_l2_message_checkpoint(self, l1_to_l2_message: Field) -> int | None:
        """node_getL1ToL2MessageCheckpoint: The checkpoint that inserts an L1-to-L2 message."""
        return await self.call(prepared.get_l1_to_l2_message_checkpoint(l1_to_l2_message))

    async def get_l1_to_l2_message_membership_witness(self, reference_block: BlockParameter, l1_to_l2_message: Field) -> list[records.BigInt | records.Base64] | None:
        """node_getL1ToL2MessageMembershipWitness: Leaf index of an L1 to L2 message and proof that it is in the message tree."""
        return await self.call(prepared.get_l1_to_l2_message_membership_witness(reference_block, l1_to_l2_message))

    async def get_l1_to_l2_messages(self, checkpoint_number: int) -> list[records.Fr] | None:
        """fastnode_getL1ToL2Messages: The messages from L1 that a checkpoint inserts, without padding; absent before it begins."""
        return await self.call(prepared.get_l1_to_l2_messages(checkpoint_number))

    async def get_l2_tips(self) -> records.L2Tips:
        """node_getL2Tips: Numbers and hashes of the four tips."""
        return await self.call(prepared.get_l2_tips())

    async def get_l2_to_l1_membership_witness(self, tx_hash: Field, message: Field, message_index_in_tx: int | None = None) -> records.L2ToL1MembershipWitness | None:
        """node_getL2ToL1MembershipWitness: What L1 needs to consume an L2-to-L1 message; absent until its epoch is proven that far."""
        return await self.call(prepared.get_l2_to_l1_membership_witness(tx_hash, message, message_index_in_tx))

    async def get_l2_to_l1_messages(self, epoch: int) -> list[list[list[list[records.Fr]]]]:
        """node_getL2ToL1Messages: L2-to-L1 messages of an epoch by checkpoint, block and transaction."""
        return await self.call(prepared.get_l2_to_l1_messages(epoch))

    async def get_low_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """node_getLowNullifierMembershipWitness: Proof that a nullifier is not in the nullifier tree: the leaf below it points past it."""
        return await self.call(prepared.get_low_nullifier_membership_witness(reference_block, nullifier))

    async def get_max_priority_fees(self) -> records.GasFees:
        """node_getMaxPriorityFees: What the pending transaction of the highest priority offers beside the minimum."""
        return await self.call(prepared.get_max_priority_fees())

    async def get_node_info(self) -> records.NodeInfo:
        """node_getNodeInfo: Versions and addresses of the network."""
        return await self.call(prepared.get_node_info())

    async def get_node_version(self) -> str:
        """node_getNodeVersion: Node version of the network."""
        return await self.call(prepared.get_node_version())

    async def get_note_hash_membership_witness(self, reference_block: BlockParameter, note_hash: Field) -> records.Base64 | None:
        """node_getNoteHashMembershipWitness: Proof that a note hash is in the note hash tree."""
        return await self.call(prepared.get_note_hash_membership_witness(reference_block, note_hash))

    async def get_nullifier_membership_witness(self, reference_block: BlockParameter, nullifier: Field) -> records.NullifierMembershipWitness | None:
        """node_getNullifierMembershipWitness: Proof that a nullifier is in the nullifier tree."""
        return await self.call(prepared.get_nullifier_membership_witness(reference_block, nullifier))

    async def get_pending_tx_count(self) -> int:
        """node_getPendingTxCount: How many transactions are pending."""
        return await self.call(prepared.get_pending_tx_count())

    async def get_pending_txs(self, limit: int | None = None, after: Field | None = None) -> list[records.Tx]:
        """node_getPendingTxs: Pending transactions by falling priority, after the one named."""
        return await self.call(prepared.get_pending_txs(limit, after))

    async def get_predicted_min_fees(self, mana_usage: int | str | None = None) -> list[records.GasFees] | None:
        """node_getPredictedMinFees: What a unit of gas will cost at least in the next slots."""
        return await self.call(prepared.get_predicted_min_fees(mana_usage))

    async def get_private_logs_by_tags(self, tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> list[list[records.TxScopedL2Log]]:
        """node_getPrivateLogsByTags: Private logs whose siloed tag is one of those given, ten per tag and page."""
        return await self.call(prepared.get_private_logs_by_tags(tags, page, reference_block))

    async def get_protocol_contract_addresses(self) -> records.ProtocolContractAddresses:
        """node_getProtocolContractAddresses: Addresses of the contracts that exist from genesis."""
        return await self.call(prepared.get_protocol_contract_addresses())

    async def get_proven_block_number(self) -> int:
        """node_getProvenBlockNumber: Number of the last proven block."""
        return await self.call(prepared.get_proven_block_number())

    async def get_public_data_witness(self, reference_block: BlockParameter, leaf_slot: Field) -> records.PublicDataWitness | None:
        """node_getPublicDataWitness: Proof of a public data leaf, or of the leaf below it when its slot was never written."""
        return await self.call(prepared.get_public_data_witness(reference_block, leaf_slot))

    async def get_public_events(self, filter_: Mapping[str, Any]) -> records.GetPublicEventsResponse:
        """fastnode_getPublicEvents: Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values."""
        return await self.call(prepared.get_public_events(filter_))

    async def get_public_logs(self, filter_: Mapping[str, Any]) -> records.GetPublicLogsResponse:
        """node_getPublicLogs: Public logs of a block range or a transaction, narrowed to a contract and a tag."""
        return await self.call(prepared.get_public_logs(filter_))

    async def get_public_logs_by_tags_from_contract(self, contract_address: Field, tags: Sequence[Field], page: int | None = None, reference_block: Field | None = None) -> list[list[records.TxScopedL2Log]]:
        """node_getPublicLogsByTagsFromContract: Public logs of a contract whose first field is one of the tags given, ten per tag and page."""
        return await self.call(prepared.get_public_logs_by_tags_from_contract(contract_address, tags, page, reference_block))

    async def get_public_storage_at(self, reference_block: BlockParameter, contract: Field, slot: Field) -> records.Fr:
        """node_getPublicStorageAt: Value of a contract's public storage slot; zero when nothing was ever written there."""
        return await self.call(prepared.get_public_storage_at(reference_block, contract, slot))

    async def get_slash_offenses(self, round: int | str) -> list[records.Offense]:
        """nodeAdmin_getSlashOffenses: Offenses that are voted on in a round, or all that have not expired."""
        return await self.call(prepared.get_slash_offenses(round))

    async def get_slash_payloads(self) -> list[records.SlashPayloadRound]:
        """nodeAdmin_getSlashPayloads: Payloads that are voted on in this round; an error where votes are tallied per validator."""
        return await self.call(prepared.get_slash_payloads())

    async def get_sync_status(self) -> records.SyncStatus:
        """fastnode_getSyncStatus: Where the node stands: following, catching up, degraded and why, and each of its upstreams."""
        return await self.call(prepared.get_sync_status())

    async def get_tx_by_hash(self, tx_hash: Field) -> records.Tx | None:
        """node_getTxByHash: A transaction that waits, or is mined but not yet final."""
        return await self.call(prepared.get_tx_by_hash(tx_hash))

    async def get_tx_effect(self, tx_hash: Field) -> records.IndexedTxEffect | None:
        """node_getTxEffect: Everything that a mined transaction changed."""
        return await self.call(prepared.get_tx_effect(tx_hash))

    async def get_tx_receipt(self, tx_hash: Field) -> records.TxReceipt:
        """node_getTxReceipt: What became of a transaction: pending, dropped, or mined with its fee and block."""
        return await self.call(prepared.get_tx_receipt(tx_hash))

    async def get_txs_by_hash(self, tx_hashes: Sequence[Field]) -> list[records.Tx]:
        """node_getTxsByHash: The transactions of these hashes that wait, or are mined but not yet final."""
        return await self.call(prepared.get_txs_by_hash(tx_hashes))

    async def get_validator_stats(self, validator_address: str, from_slot: int | None = None, to_slot: int | None = None) -> records.SingleValidatorStats | None:
        """node_getValidatorStats: What one validator did."""
        return await self.call(prepared.get_validator_stats(validator_address, from_slot, to_slot))

    async def get_validators_stats(self) -> records.ValidatorsStats:
        """node_getValidatorsStats: What each validator did in the last slots."""
        return await self.call(prepared.get_validators_stats())

    async def get_version(self) -> int:
        """node_getVersion: Version number of the rollup."""
        return await self.call(prepared.get_version())

    async def get_world_state_sync_status(self) -> records.WorldStateSyncStatus:
        """node_getWorldStateSyncStatus: Newest block in the state trees, the oldest that can be asked about, and the finalized one."""
        return await self.call(prepared.get_world_state_sync_status())

    async def is_l1_to_l2_message_synced(self, l1_to_l2_message: Field) -> bool:
        """node_isL1ToL2MessageSynced: Whether the node knows an L1-to-L2 message."""
        return await self.call(prepared.is_l1_to_l2_message_synced(l1_to_l2_message))

    async def is_ready(self) -> bool:
        """node_isReady: Whether the chain is new enough and a transaction that is sent here can go somewhere."""
        return await self.call(prepared.is_ready())

    async def is_valid_tx(self, tx: Mapping[str, Any], options: Mapping[str, bool] | None = None) -> records.TxValidationResult:
        """node_isValidTx: Whether a transaction could be in the next block, with every reason why not."""
        return await self.call(prepared.is_valid_tx(tx, options))

    async def pause_sync(self) -> None:
        """nodeAdmin_pauseSync: Stop ingesting; what is stored is served as before."""
        return await self.call(prepared.pause_sync())

    async def register_artifact(self, artifact: Mapping[str, Any], class_id: Field | None = None) -> records.RegisteredArtifact:
        """fastnode_registerArtifact: Learn the names of a contract class from its artifact; one of another class is refused."""
        return await self.call(prepared.register_artifact(artifact, class_id))

    async def register_contract_function_signatures(self, function_signatures: Sequence[str]) -> None:
        """node_registerContractFunctionSignatures: Name contract functions, for texts that people read."""
        return await self.call(prepared.register_contract_function_signatures(function_signatures))

    async def reload_keystore(self) -> None:
        """nodeAdmin_reloadKeystore: Read the keystore again and take over validators, coinbases, fee recipients and publishers; all of it or, if anything is wrong, nothing."""
        return await self.call(prepared.reload_keystore())

    async def resume_sync(self) -> None:
        """nodeAdmin_resumeSync: Go on ingesting."""
        return await self.call(prepared.resume_sync())

    async def rollback_to(self, target_block_number: int, force: bool | None = None, resume_sync: bool | None = None) -> None:
        """nodeAdmin_rollbackTo: Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise."""
        return await self.call(prepared.rollback_to(target_block_number, force, resume_sync))

    async def send_tx(self, tx: Mapping[str, Any]) -> None:
        """node_sendTx: Submit a transaction. An answer without an error means that it is kept or was known."""
        return await self.call(prepared.send_tx(tx))

    async def set_config(self, config: Mapping[str, Any]) -> None:
        """nodeAdmin_setConfig: Merge some keys into the configuration until the node ends; all of them or, if one is unknown, of a wrong type, fixed while the node runs or read by no part of it, none."""
        return await self.call(prepared.set_config(config))

    async def simulate_public_calls(self, tx: Mapping[str, Any], skip_fee_enforcement: bool | None = None) -> records.PublicSimulationOutput:
        """node_simulatePublicCalls: Run the public part of a transaction on the newest state without including it."""
        return await self.call(prepared.simulate_public_calls(tx, skip_fee_enforcement))

    async def start_snapshot_upload(self, location: str) -> None:
        """nodeAdmin_startSnapshotUpload: Copy the databases and upload the copy. Answers at once; how it goes on is in the log."""
        return await self.call(prepared.start_snapshot_upload(location))

    async def trace_block(self, block_number: int, options: Mapping[str, Any] | None = None) -> list[records.TransactionTrace] | None:
        """fastnode_traceBlock: What the transactions of a block did, call by call, in their order."""
        return await self.call(prepared.trace_block(block_number, options))

    async def trace_call(self, tx: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> records.TransactionTrace:
        """fastnode_traceCall: What a transaction would do on the newest state, call by call; it need not be proven."""
        return await self.call(prepared.trace_call(tx, options))

    async def trace_transaction(self, tx_hash: Field, options: Mapping[str, Any] | None = None) -> records.TransactionTrace | None:
        """fastnode_traceTransaction: What a transaction did, call by call: it is executed again at its place in its block."""
        return await self.call(prepared.trace_transaction(tx_hash, options))
