"""The settings of a local network: how its chain begins, and when its blocks are built."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer, Seconds
from fastnode.values.texts import FilePath, Text

__all__ = ["LocalNetworkSettings"]

LOCAL_NETWORK = "Local network"

_SECONDS_MAX = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class LocalNetworkSettings:
    local_network: bool = setting(
        False,
        Boolean(),
        LOCAL_NETWORK,
        "Run a local chain instead of following one, without L1 and without proofs.",
        flags=("--sandbox",),
    )
    mining: bool = setting(
        True,
        Boolean(),
        LOCAL_NETWORK,
        "Build a block the moment a transaction arrives; --no-mining: only when asked to (fastnode_mine).",
        needs=needs.LOCAL_NETWORK,
    )
    block_time_s: float | None = setting(
        None,
        Seconds(0.05, 86_400),
        LOCAL_NETWORK,
        "Build a block every so many seconds instead, with the transactions that wait.",
        needs=needs.LOCAL_NETWORK,
        flags=("--block-time",),
    )
    slot_duration_s: int = setting(
        1,
        Integer(1, _SECONDS_MAX),
        LOCAL_NETWORK,
        "Length of a slot, in seconds of the chain's time. Only read while nothing is stored.",
        needs=needs.LOCAL_NETWORK,
        flags=("--slot-duration",),
    )
    finality_lag: int = setting(
        2,
        Integer(0, 1_000_000),
        LOCAL_NETWORK,
        "Blocks that follow one before it is final; a wallet can use 20 tags beyond the newest final block.",
        needs=needs.LOCAL_NETWORK,
    )
    manual_proving: bool = setting(
        False,
        Boolean(),
        LOCAL_NETWORK,
        "Let blocks be proven only when asked to (fastnode_prove), instead of at once.",
        needs=needs.LOCAL_NETWORK,
    )
    test_accounts: bool = setting(
        True,
        Boolean(),
        LOCAL_NETWORK,
        "Begin with three deployed accounts, a token and two contracts that pay fees.",
        needs=needs.FIRST_BLOCK,
        environment=("TEST_ACCOUNTS",),
    )
    prefund: tuple[str, ...] | None = setting(
        None,
        texts("ADDRESS[:AMOUNT]", "addresses (0x and 64 hex digits), each with :AMOUNT if wanted"),
        LOCAL_NETWORK,
        "Accounts with fee juice from the beginning, in the smallest unit (default 10^22); also of a followed network.",
        needs=needs.FIRST_BLOCK,
        environment=("PREFUND_ADDRESSES",),
    )
    sponsored_fpc: bool = setting(
        False,
        Boolean(),
        LOCAL_NETWORK,
        "The genesis of the followed network funds the contract that pays for everybody; tried either way.",
        needs=needs.FOLLOWING,
        environment=("SPONSORED_FPC",),
    )
    seed: str | None = setting(
        None,
        Text(metavar="TEXT"),
        LOCAL_NETWORK,
        "Text from which the rollup version and L1 addresses follow; random without it.",
        needs=needs.LOCAL_NETWORK,
    )
    load_state: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        LOCAL_NETWORK,
        "Begin with the chain of this file (of fastnode export, --dump-state or fastnode_dumpState).",
        needs=needs.LOCAL_NETWORK,
    )
    dump_state: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        LOCAL_NETWORK,
        "Write the chain to this file at exit.",
        needs=needs.LOCAL_NETWORK,
    )
    state: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        LOCAL_NETWORK,
        "Begin with the chain of this file if it exists, and write it at exit.",
        needs=needs.LOCAL_NETWORK,
    )
    fork_from: str | None = setting(
        None,
        Text(metavar="SOURCE"),
        LOCAL_NETWORK,
        "Begin with a verified copy of a chain: a chain file, a data directory, the URL of a fastnode, or a snapshot "
        "(snapshot:LOCATION, file://, s3:// or gs://).",
        needs=needs.LOCAL_NETWORK,
        flags=("--fork-url",),
    )
    fork_block_number: int | None = setting(
        None,
        Integer(1, 1 << 32),
        LOCAL_NETWORK,
        "End the copy with the last checkpoint up to this block; not set: with the newest.",
        needs=needs.LOCAL_NETWORK,
    )
    fork_sources: tuple[str, ...] | None = setting(
        None,
        texts("SOURCE"),
        LOCAL_NETWORK,
        "Sources, as of --fork-from, that fastnode_reset may copy from besides.",
        needs=needs.LOCAL_NETWORK,
    )
    local_network_origins: tuple[str, ...] | None = setting(
        None,
        texts("ORIGIN"),
        LOCAL_NETWORK,
        "Origins of pages (http://localhost:3000) that may change the network from a browser.",
        needs=needs.LOCAL_NETWORK,
    )
    l1_clock_port: int | None = setting(
        None,
        Integer(0, 65_535),
        LOCAL_NETWORK,
        "Port that answers as an L1 without an EVM, with clock, tips and messages of the network; 0: any free one.",
        needs=needs.LOCAL_NETWORK,
    )
    ready_fd: int | None = setting(
        None,
        Integer(0, 1 << 20),
        LOCAL_NETWORK,
        "Open file that gets one line of JSON (url, admin_url, accounts, ...) once the node serves.",
    )
    print_json: bool = setting(
        False,
        Boolean(),
        LOCAL_NETWORK,
        "Write that line to standard output; logs go to standard error.",
    )
