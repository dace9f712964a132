"""The settings of writing to L1: whose keys sign, what transactions may cost, how long each is watched."""

from __future__ import annotations

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf, texts
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer, Number
from fastnode.values.texts import HexText, Text

__all__ = ["PublishingSettings"]

PUBLISHING = "Publishing on L1"

_ADDRESS_BYTES = 20
_COUNT_MAX = 1 << 32
_GWEI_MAX = 1_000_000_000
_MILLISECONDS_MAX = 1 << 40
_PERCENT_MAX = 100_000
_KEYS = "private keys, 0x and 64 hex digits each, separated by commas"


@dataclass(frozen=True, kw_only=True)
class PublishingSettings:
    validator_private_keys: tuple[str, ...] | None = setting(
        None,
        texts("KEY", _KEYS),
        PUBLISHING,
        "Keys of the node's validators, in place of --key-store-directory.",
        needs=needs.WRITING_TO_L1,
        environment=("VALIDATOR_PRIVATE_KEYS", "VALIDATOR_PRIVATE_KEY"),
        secret=True,
    )
    web3_signer_url: str | None = setting(
        None,
        Text(metavar="URL"),
        PUBLISHING,
        "Remote signer (Web3Signer) that has the keys of the addresses that are named.",
        needs=needs.WRITING_TO_L1,
        environment=("WEB3_SIGNER_URL",),
        secret=True,
    )
    seq_publisher_private_keys: tuple[str, ...] | None = setting(
        None,
        texts("KEY", _KEYS),
        PUBLISHING,
        "Keys of the accounts that pay for checkpoints on L1; not set: the first validator's.",
        needs=needs.WRITING_TO_L1,
        environment=("SEQ_PUBLISHER_PRIVATE_KEYS", "SEQ_PUBLISHER_PRIVATE_KEY"),
        secret=True,
    )
    seq_publisher_addresses: tuple[str, ...] = setting(
        (),
        ArrayOf(HexText(_ADDRESS_BYTES)),
        PUBLISHING,
        "The same, for keys that the remote signer has.",
        needs=needs.WRITING_TO_L1,
        environment=("SEQ_PUBLISHER_ADDRESSES",),
    )
    prover_publisher_private_keys: tuple[str, ...] | None = setting(
        None,
        texts("KEY", _KEYS),
        PUBLISHING,
        "Keys of the accounts that pay for proofs on L1.",
        needs=needs.WRITING_TO_L1,
        environment=("PROVER_PUBLISHER_PRIVATE_KEYS", "PROVER_PUBLISHER_PRIVATE_KEY"),
        secret=True,
    )
    prover_publisher_addresses: tuple[str, ...] = setting(
        (),
        ArrayOf(HexText(_ADDRESS_BYTES)),
        PUBLISHING,
        "The same, for keys that the remote signer has.",
        needs=needs.WRITING_TO_L1,
        environment=("PROVER_PUBLISHER_ADDRESSES",),
    )
    seq_publisher_allow_invalid_states: bool = setting(
        True,
        Boolean(),
        PUBLISHING,
        "Send from an account whose last transaction is not decided, when there is no other account.",
        needs=needs.WRITING_TO_L1,
        environment=("SEQ_PUBLISHER_ALLOW_INVALID_STATES",),
    )
    seq_publisher_forwarder_address: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        PUBLISHING,
        "Contract with forward(address,bytes) that checkpoints and votes are sent through; for tests.",
        needs=needs.SEQUENCER,
        environment=("SEQ_PUBLISHER_FORWARDER_ADDRESS",),
    )
    publisher_balance_min_eth: float = setting(
        0.1,
        Number(0, 1_000_000),
        PUBLISHING,
        "Balance of such an account, in ETH, below which the node warns.",
        needs=needs.WRITING_TO_L1,
    )
    l1_gas_limit_buffer_percentage: int = setting(
        20,
        Integer(0, _PERCENT_MAX),
        PUBLISHING,
        "Gas that a transaction may take beyond its estimate.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_GAS_LIMIT_BUFFER_PERCENTAGE",),
    )
    l1_gas_price_max: float = setting(
        2000,
        Number(0, _GWEI_MAX, above_minimum=True),
        PUBLISHING,
        "Most that is paid for a unit of gas, in gwei.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_GAS_PRICE_MAX", "L1_FEE_PER_GAS_GWEI_MAX"),
    )
    l1_blob_fee_per_gas_max: float = setting(
        3000,
        Number(0, _GWEI_MAX, above_minimum=True),
        PUBLISHING,
        "Most that is paid for a unit of blob gas, in gwei; a replacement may pay twice the price.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_BLOB_FEE_PER_GAS_MAX", "L1_BLOB_FEE_PER_GAS_GWEI_MAX"),
    )
    l1_priority_fee_bump_percentage: int = setting(
        20,
        Integer(0, _PERCENT_MAX),
        PUBLISHING,
        "How much more than the estimated tip is offered at first.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_PRIORITY_FEE_BUMP_PERCENTAGE",),
    )
    l1_priority_fee_retry_bump_percentage: int = setting(
        50,
        Integer(0, _PERCENT_MAX),
        PUBLISHING,
        "How much more is offered to replace a transaction; L1 wants at least 10, with blobs 100.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_PRIORITY_FEE_RETRY_BUMP_PERCENTAGE",),
    )
    l1_minimum_priority_fee_per_gas_gwei: float = setting(
        0,
        Number(0, _GWEI_MAX),
        PUBLISHING,
        "Least tip, in gwei.",
        needs=needs.WRITING_TO_L1,
        environment=(
            "L1_MINIMUM_PRIORITY_FEE_PER_GAS_GWEI",
            "L1_FIXED_PRIORITY_FEE_PER_GAS",
            "L1_FIXED_PRIORITY_FEE_PER_GAS_GWEI",
        ),
    )
    l1_tx_monitor_max_attempts: int = setting(
        3,
        Integer(0, _COUNT_MAX),
        PUBLISHING,
        "How often a transaction is sent again with a higher price, and its cancellation.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_MAX_ATTEMPTS",),
    )
    l1_tx_monitor_check_interval_ms: int = setting(
        1000,
        Integer(1, _MILLISECONDS_MAX),
        PUBLISHING,
        "How often L1 is asked what became of a transaction.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_CHECK_INTERVAL_MS",),
    )
    l1_tx_monitor_stall_time_ms: int = setting(
        12_000,
        Integer(1, _MILLISECONDS_MAX),
        PUBLISHING,
        "When a transaction is sent again at a higher price, in L1's time.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_STALL_TIME_MS",),
    )
    l1_tx_monitor_tx_timeout_ms: int = setting(
        120_000,
        Integer(0, _MILLISECONDS_MAX),
        PUBLISHING,
        "When it is given up, in L1's time; 0: never. A checkpoint is given up with its slot.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_TX_TIMEOUT_MS",),
    )
    l1_tx_monitor_cancel_tx_on_timeout: bool = setting(
        True,
        Boolean(),
        PUBLISHING,
        "Replace a transaction that is given up by one that does nothing.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_CANCEL_TX_ON_TIMEOUT",),
    )
    l1_tx_monitor_tx_cancellation_timeout_ms: int = setting(
        288_000,
        Integer(0, _MILLISECONDS_MAX),
        PUBLISHING,
        "After how long that one is given up, in L1's time.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_TX_CANCELLATION_TIMEOUT_MS",),
    )
    l1_tx_monitor_tx_unseen_considered_dropped_ms: int = setting(
        72_000,
        Integer(0, _MILLISECONDS_MAX),
        PUBLISHING,
        "When a cancellation that L1 nodes no longer know counts as dropped, in L1's time.",
        needs=needs.WRITING_TO_L1,
        environment=("L1_TX_MONITOR_TX_UNSEEN_CONSIDERED_DROPPED_MS",),
    )
