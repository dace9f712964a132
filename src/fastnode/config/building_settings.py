"""The settings of block building: the sequencer's limits and times, and its bot."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.records import dataclass
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer, Number
from fastnode.values.texts import FilePath, HexText

__all__ = ["BuildingSettings"]

BUILDING = "Block building"

_COUNT_MAX = 1 << 32
_SECONDS_MAX = 1 << 32
_MILLISECONDS_MAX = 1 << 40
_ADDRESS_BYTES = 20
_FIELD_BYTES = 32

_CIRCUITS = needs.missing("circuits of its own, which this node does not have")
_BOT = needs.missing("a transaction bot, which this node does not have")


@dataclass(frozen=True, kw_only=True)
class BuildingSettings:
    sequencer: bool = setting(
        False,
        Boolean(),
        BUILDING,
        "Propose checkpoints and publish them on L1, with the keys of validators; docs/sequencer.md.",
        whole_release=True,
    )
    seq_polling_interval_ms: int = setting(
        500,
        Integer(1, _MILLISECONDS_MAX),
        BUILDING,
        "How often the sequencer looks for work.",
        needs=needs.SEQUENCER,
        environment=("SEQ_POLLING_INTERVAL_MS",),
    )
    max_txs_per_block: int | None = setting(
        None,
        Integer(0, _COUNT_MAX),
        BUILDING,
        "Most transactions in a block that is built.",
        needs=needs.BUILDING,
    )
    max_txs_per_checkpoint: int | None = setting(
        None,
        Integer(0, _COUNT_MAX),
        BUILDING,
        "Most transactions in the blocks of a checkpoint together.",
        needs=needs.BUILDING,
        environment=("SEQ_MAX_TX_PER_CHECKPOINT",),
        flags=("--maxTxsPerCheckpoint",),
    )
    min_txs_per_block: int = setting(
        1,
        Integer(0, _COUNT_MAX),
        BUILDING,
        "Fewest pending transactions for which a block is built.",
        needs=needs.BUILDING,
        environment=("SEQ_MIN_TX_PER_BLOCK",),
    )
    max_l2_block_gas: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        BUILDING,
        "L2 gas of a block, at most a checkpoint's; not set: worked out from that.",
        needs=needs.BUILDING,
        environment=("SEQ_MAX_L2_BLOCK_GAS",),
        flags=("--maxL2BlockGas",),
    )
    max_da_block_gas: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        BUILDING,
        "Data gas of a block, at most a checkpoint's; not set: worked out from that.",
        needs=needs.BUILDING,
        environment=("SEQ_MAX_DA_BLOCK_GAS",),
        flags=("--maxDABlockGas",),
    )
    per_block_allocation_multiplier: float = setting(
        2,
        Number(0, 1_000_000, above_minimum=True),
        BUILDING,
        "How many even shares of a checkpoint's gas one of its blocks may take.",
        needs=needs.BUILDING,
        environment=("SEQ_PER_BLOCK_ALLOCATION_MULTIPLIER",),
        flags=("--perBlockAllocationMultiplier",),
    )
    publish_txs_with_proposals: bool = setting(
        False,
        Boolean(),
        BUILDING,
        "Send the transactions of a proposed block along with it, if they fit.",
        needs=needs.ATTESTING,
        environment=("SEQ_PUBLISH_TXS_WITH_PROPOSALS",),
    )
    coinbase: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        BUILDING,
        "L1 address that gets the reward of a block.",
        needs=needs.BUILDING,
        environment=("COINBASE",),
    )
    fee_recipient: str | None = setting(
        None,
        HexText(_FIELD_BYTES),
        BUILDING,
        "L2 address that gets the fees of a block.",
        needs=needs.BUILDING,
        environment=("FEE_RECIPIENT",),
    )
    acvm_working_directory: Path | None = setting(
        None,
        FilePath(metavar="DIRECTORY"),
        BUILDING,
        "Where the simulator of private functions keeps its files.",
        needs=_CIRCUITS,
        environment=("ACVM_WORKING_DIRECTORY",),
    )
    acvm_binary_path: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUILDING,
        "The simulator of private functions.",
        needs=_CIRCUITS,
        environment=("ACVM_BINARY_PATH",),
    )
    governance_proposer_payload: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        BUILDING,
        "Payload to vote for in governance.",
        needs=needs.SEQUENCER,
        environment=("GOVERNANCE_PROPOSER_PAYLOAD_ADDRESS",),
    )
    l1_publishing_time: int | None = setting(
        None,
        Integer(0, _SECONDS_MAX),
        BUILDING,
        "Seconds of a slot that are kept for publishing on L1.",
        needs=needs.BUILDING,
        environment=("SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT",),
    )
    enforce_time_table: bool = setting(
        True,
        Boolean(),
        BUILDING,
        "Give up a block that is not ready in its part of the slot.",
        needs=needs.SEQUENCER,
        environment=("SEQ_ENFORCE_TIME_TABLE",),
    )
    attestation_propagation_time: int = setting(
        2,
        Integer(0, _SECONDS_MAX),
        BUILDING,
        "Seconds that an attestation takes through the network, one way.",
        needs=needs.SEQUENCER,
        environment=("SEQ_ATTESTATION_PROPAGATION_TIME",),
    )
    seconds_before_invalidating_block_as_committee_member: int = setting(
        144,
        Integer(0, _SECONDS_MAX),
        BUILDING,
        "When a member of the committee invalidates an invalid block that its proposer left.",
        needs=needs.SEQUENCER,
        environment=("SEQ_SECONDS_BEFORE_INVALIDATING_BLOCK_AS_COMMITTEE_MEMBER",),
    )
    seconds_before_invalidating_block_as_non_committee_member: int = setting(
        432,
        Integer(0, _SECONDS_MAX),
        BUILDING,
        "When everybody else does.",
        needs=needs.SEQUENCER,
        environment=("SEQ_SECONDS_BEFORE_INVALIDATING_BLOCK_AS_NON_COMMITTEE_MEMBER",),
    )
    fisherman_mode: bool = setting(
        False,
        Boolean(),
        BUILDING,
        "Build a checkpoint in each slot and judge those of others; sign and publish nothing.",
        needs=needs.SEQUENCER,
        environment=("FISHERMAN_MODE",),
    )
    block_duration_ms: int | None = setting(
        None,
        Integer(1, _MILLISECONDS_MAX),
        BUILDING,
        "Time for one block; one block takes the whole slot if not set.",
        needs=needs.BUILDING,
        environment=("SEQ_BLOCK_DURATION_MS",),
    )
    max_blocks_per_checkpoint: int | None = setting(
        None,
        Integer(1, _COUNT_MAX),
        BUILDING,
        "Most blocks of a checkpoint; as many as fit into a slot if not set.",
        needs=needs.BUILDING,
        environment=("MAX_BLOCKS_PER_CHECKPOINT",),
    )
    expected_block_proposals_per_slot: int = setting(
        0,
        Integer(0, _COUNT_MAX),
        BUILDING,
        "How many block proposals peers are allowed for a slot; 0: as many as fit.",
        needs=needs.PEERS,
        environment=("SEQ_EXPECTED_BLOCK_PROPOSALS_PER_SLOT",),
    )
    build_checkpoint_if_empty: bool = setting(
        False,
        Boolean(),
        BUILDING,
        "Build a checkpoint without transactions too.",
        needs=needs.SEQUENCER,
        environment=("SEQ_BUILD_CHECKPOINT_IF_EMPTY",),
    )
    skip_checkpoint_publish_percent: float = setting(
        0,
        Number(0, 100),
        BUILDING,
        "Share of checkpoints that are not published; for tests.",
        needs=needs.SEQUENCER,
        environment=("SEQ_SKIP_CHECKPOINT_PUBLISH_PERCENT",),
    )
    p2p_min_tx_pool_age_ms: int = setting(
        2000,
        Integer(0, _MILLISECONDS_MAX),
        BUILDING,
        "How long a transaction waits before it may be in a block.",
        needs=needs.SEQUENCER,
        environment=("P2P_MIN_TX_POOL_AGE_MS",),
        flags=("--p2p.minTxPoolAgeMs",),
    )
    initial_eth_per_fee_asset: int = setting(
        10_000_000,
        Integer(1, JSON_INTEGER_MAX),
        BUILDING,
        "Price of the fee asset in a new local network, in 1e-12 ETH.",
        needs=needs.LOCAL_NETWORK,
        environment=("AZTEC_INITIAL_ETH_PER_FEE_ASSET",),
        flags=("--initialEthPerFeeAsset",),
    )
    bot_min_fee_padding: int = setting(
        3,
        Integer(0, _COUNT_MAX),
        BUILDING,
        "How much more than the current minimum fee the transaction bot offers.",
        needs=_BOT,
        environment=("BOT_MIN_FEE_PADDING",),
        flags=("--bot.minFeePadding",),
    )
