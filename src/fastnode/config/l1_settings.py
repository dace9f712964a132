"""The settings of L1: what is asked there, and where the blobs are that a chain is derived from."""

from __future__ import annotations

from typing import Final

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer, Seconds
from fastnode.values.texts import HexText, Text

__all__ = ["L1Settings"]

L1 = "L1"
BLOBS = "Blobs"

_ADDRESS_BYTES = 20
_COUNT_MAX = 1 << 32
_URLS = "http:// or https:// URLs, separated by commas"


#: Settings that name places of blobs.
_PLACES: Final = ("l1-consensus-host-urls", "blob-file-store-urls", "blob-archive-api-url")
#: The same for messages, to follow "give".
A_PLACE_OF_BLOBS: Final = f"a place of blobs (--{', --'.join(_PLACES[:-1])} or --{_PLACES[-1]})"


@dataclass(frozen=True, kw_only=True)
class L1Settings:
    l1_rpc_urls: tuple[str, ...] | None = setting(
        None,
        texts("URL", "http:// or https:// URLs, separated by commas"),
        L1,
        "Node of L1 to read messages, tips, fees and committees from; with a place of blobs the chain itself. The "
        "first that answers is asked.",
        environment=("ETHEREUM_HOSTS",),
        secret=True,
    )
    l1_polling_interval_ms: int | None = setting(
        None,
        Integer(1, 3_600_000),
        L1,
        "How often L1 is asked for a new block; not set: when the next one is due.",
        needs=needs.L1_READING,
        environment=("L1_READER_VIEM_POLLING_INTERVAL_MS",),
    )
    l1_timeout_s: float = setting(
        15.0,
        Seconds(0.1, 600),
        L1,
        "How long a node of L1 may take for one complete answer.",
        needs=needs.L1_READING,
    )
    require_canonical_rollup: bool = setting(
        False,
        Boolean(),
        L1,
        "Count the node as not ready (/readyz), and refuse transactions, once the registry on L1 names another rollup "
        "as the canonical one; without this setting /status reports it.",
        needs=needs.L1_READING,
    )
    standby: bool = setting(
        False,
        Boolean(),
        L1,
        "With nothing stored, and a canonical rollup on L1 of a release or genesis that is not known: wait, poll the "
        "registry once a minute, and start when it names a known rollup; without it the start ends with an error.",
        needs=needs.STANDBY,
    )
    l1_calls_per_second: int | None = setting(
        None,
        Integer(1, 1_000_000),
        L1,
        "Calls that each node of L1 grants per second, each call of a batch counted; not set: learned from what it "
        "refuses.",
        needs=needs.L1_READING,
    )
    l1_batch_calls: int = setting(
        50,
        Integer(1, 1_000),
        L1,
        "Calls of one request to a node of L1, at most; fewer where it refuses so many.",
        needs=needs.L1_READING,
    )
    ethereum_slot_duration: int | None = setting(
        None,
        Integer(1, 3600),
        L1,
        "Seconds between two blocks of L1; not set: what the stored chain says, else 12.",
        needs=needs.L1_READING,
        environment=("ETHEREUM_SLOT_DURATION",),
    )
    max_allowed_eth_client_drift_seconds: int = setting(
        300,
        Integer(0, 1_000_000_000),
        L1,
        "How old the newest block of an L1 node may be before another is asked, in seconds; 0: any age, and slots go "
        "by L1's blocks.",
        needs=needs.L1_READING,
        environment=("MAX_ALLOWED_ETH_CLIENT_DRIFT_SECONDS",),
    )
    l1_consensus_host_urls: tuple[str, ...] | None = setting(
        None,
        texts("URL", _URLS),
        L1,
        "Consensus client of L1 that has blobs. With a place of blobs the chain is derived from L1.",
        needs=needs.DERIVING,
        environment=("L1_CONSENSUS_HOST_URLS",),
        secret=True,
    )
    l1_consensus_host_api_keys: tuple[str, ...] | None = setting(
        None,
        texts("KEY"),
        L1,
        "Keys of the consensus clients, in the order of their URLs.",
        needs=needs.CONSENSUS_CLIENTS,
        environment=("L1_CONSENSUS_HOST_API_KEYS",),
        secret=True,
    )
    l1_consensus_host_api_key_headers: tuple[str, ...] | None = setting(
        None,
        texts("NAME"),
        L1,
        "Headers for the keys, in the same order; without one a key goes into the query (key=).",
        needs=needs.CONSENSUS_CLIENTS,
        environment=("L1_CONSENSUS_HOST_API_KEY_HEADERS",),
    )
    ethereum_debug_hosts: tuple[str, ...] | None = setting(
        None,
        texts("URL", _URLS),
        L1,
        "L1 nodes that trace transactions, for nested proposals; not set: those of --l1-rpc-urls.",
        needs=needs.DERIVING,
        environment=("ETHEREUM_DEBUG_HOSTS",),
        secret=True,
    )
    ethereum_allow_no_debug_hosts: bool = setting(
        True,
        Boolean(),
        L1,
        "Start although no L1 node traces transactions; the chain stops at a proposal that only a trace shows.",
        needs=needs.DERIVING,
        environment=("ETHEREUM_ALLOW_NO_DEBUG_HOSTS",),
    )
    archiver_batch_size: int = setting(
        100,
        Integer(1, _COUNT_MAX),
        L1,
        "Slots of the rollup for which L1 is first asked for events at a time.",
        needs=needs.DERIVING,
        environment=("ARCHIVER_BATCH_SIZE",),
    )

    fee_asset_handler_address: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        L1,
        "Contract on L1 that gives out the fee asset of a test network.",
        needs=needs.LEARNING_FROM_L1,
        environment=("FEE_ASSET_HANDLER_CONTRACT_ADDRESS",),
    )
    tx_collection_file_store_urls: tuple[str, ...] | None = setting(
        None,
        texts("URL"),
        L1,
        "Stores with transactions of proposals.",
        needs=needs.missing("a collector of transactions from stores: this node asks its peers for them"),
        environment=("TX_COLLECTION_FILE_STORE_URLS",),
        secret=True,
    )

    # ---- blobs ----------------------------------------------------------------------------

    blob_file_store_urls: tuple[str, ...] | None = setting(
        None,
        texts("URL"),
        BLOBS,
        "Stores from which blobs are read: https://host/path, s3://bucket/path, gs://bucket/path or file:///folder.",
        needs=needs.DERIVING,
        environment=("BLOB_FILE_STORE_URLS",),
        secret=True,
        packages=("obstore", "cramjam"),
    )
    blob_file_store_upload_url: str | None = setting(
        None,
        Text(metavar="URL"),
        BLOBS,
        "Store to which blobs that were read are written: s3://, gs:// or file://.",
        needs=needs.DERIVING,
        environment=("BLOB_FILE_STORE_UPLOAD_URL",),
        secret=True,
        packages=("obstore", "cramjam"),
    )
    blob_archive_api_url: str | None = setting(
        None,
        Text(metavar="URL"),
        BLOBS,
        "Archive of blobs that consensus clients have dropped (the interface of Blobscan), asked last.",
        needs=needs.DERIVING,
        environment=("BLOB_ARCHIVE_API_URL",),
        secret=True,
    )
    blob_allow_empty_sources: bool = setting(
        False,
        Boolean(),
        BLOBS,
        "Derive the chain from L1 although no place of blobs is given or reached at the start.",
        needs=needs.DERIVING,
        environment=("BLOB_ALLOW_EMPTY_SOURCES",),
    )

    @property
    def reads_l1(self) -> bool:
        return self.l1_rpc_urls is not None

    @property
    def derives_from_l1(self) -> bool:
        """True if the chain is read from L1: with a place of blobs, or without one if that is allowed."""
        has_place = any(getattr(self, place.replace("-", "_")) for place in _PLACES)
        return self.reads_l1 and (has_place or self.blob_allow_empty_sources)
