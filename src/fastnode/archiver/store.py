"""The chain database: opened (or refused), read through views, and closed.

The key layout is drawn at the top of ``layout.py``.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import TracebackType
from typing import Final

import orjson

from fastnode.archiver import layout
from fastnode.archiver.entries import Entries
from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredTips
from fastnode.archiver.rendering import render
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.errors import BlockRejected, DatabaseError, DataDirectoryError, StartError
from fastnode.protocol import releases
from fastnode.protocol.header import AppendOnlyTreeSnapshot
from fastnode.protocol.releases import Release
from fastnode.storage.database import DatabaseMemory, SharedDatabase, WriteBatch
from fastnode.storage.giving_back import GivingBack
from fastnode.storage.migration import bring_up_to_date

__all__ = ["ARCHIVER_DIRECTORY", "UNREADABLE", "ArchiverStore", "check_genesis_hash", "genesis_entries"]

#: Errors that a damaged value may raise in its reader.
UNREADABLE: Final = (ValueError, KeyError, struct.error)

#: Folder of this database below the data directory.
ARCHIVER_DIRECTORY: Final = "archiver"


class ArchiverStore:
    """The open chain database.  One process opens it at a time; in it, one thread writes.

    ``open`` gives a store that may not know its chain yet; ``adopt_chain`` says which one it is
    (or checks that it is the same), and after that views can be opened.
    """

    def __init__(self, database: SharedDatabase) -> None:
        self._database = database
        self._chain: ChainInfo | None = None
        #: The record that :attr:`_chain` was read from.
        self._chain_record = b""
        self._closed = False
        #: Bodies of blocks that were dropped and are still on the disk.
        self.giving_back = GivingBack(database, layout.KEY_DROPPED)

    @classmethod
    def open(cls, data_directory: Path, *, create: bool = True, memory: DatabaseMemory | None = None) -> ArchiverStore:
        """Open ``<data_directory>/archiver``, creating it unless ``create`` is False.

        DataDirectoryError: in use, unwritable, damaged, not a fastnode database, or of another schema.
        """
        path = data_directory / ARCHIVER_DIRECTORY
        database = SharedDatabase.open(
            path, create=create, memory=memory, texts=layout.TEXTS, height_key=layout.KEY_TIPS
        )
        try:
            _check_schema(database)
        except BaseException:
            database.release()
            raise
        return cls(database)

    # ---- which chain ---------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def database(self) -> SharedDatabase:
        """For those who watch its writes, or repeat those of another one."""
        return self._database

    @property
    def fault(self) -> str | None:
        """The fault of the database, None for nothing."""
        return self._database.fault

    @property
    def has_chain(self) -> bool:
        """True if a genesis has been stored.  DatabaseUnreadable if the tips of a chain are lost: nothing may be begun
        over it."""
        if self._database.get(layout.KEY_TIPS) is not None:
            return True
        if self._database.get(layout.KEY_CHAIN) is not None:
            raise self._database.unreadable(ValueError("its tips are missing"))
        return False

    @property
    def chain(self) -> ChainInfo:
        """Facts of the database about its chain; DatabaseError before ``adopt_chain``.

        DataDirectoryError when it is of a release that is not known here.
        """
        if self._chain is None or self._database.get(layout.KEY_CHAIN) != self._chain_record:
            self._chain = self._load_chain()
        return self._chain

    def adopt_chain(self, chain: ChainRecord, genesis: GenesisRecord) -> bool:
        """Store the genesis of a new chain, or check that it is the chain stored already.

        Returns whether it was new.  DataDirectoryError, naming both, when the L1 chain id, the rollup
        version, the genesis block hash or the genesis archive root differ.  StartError for a chain of a release that
        is not served.
        """
        if not (chain.release.is_served or chain.release.is_derived):
            served = ", ".join(one.name for one in releases.known() if one.is_served or one.is_derived)
            raise StartError(f"the chain is of release {chain.release.name}, this node serves {served} only")
        if self.has_chain:
            self._refuse_other_chain(chain, genesis)
            return False
        check_genesis_hash(genesis)
        batch = self.write_batch()
        for key, value in genesis_entries(chain, genesis).items():
            batch.put(key, value)
        batch.put(layout.KEY_TIPS, StoredTips(0, 0, 0, 0).encode())
        batch.commit()
        return True

    def serve_as(self, version: str) -> bool:
        """Let the chain go by this node version from now on; returns whether that is another one.

        DataDirectoryError when it is not one of the chain's release.
        """
        chain = self.chain
        if version == chain.node_version:
            return False
        if not chain.release.has_version(version):
            raise DataDirectoryError(
                f"the chain of {self.path.parent} is of release {chain.release.name}, version {version} is of another"
            )
        info = chain.node_info | {"nodeVersion": version}
        record = ChainRecord(info, chain.l1_constants, chain.min_fees)
        batch = self.write_batch()
        batch.put(layout.KEY_CHAIN, orjson.dumps(record.to_json()))
        batch.commit()
        return True

    def _load_chain(self) -> ChainInfo:
        chain, genesis = self._database.get(layout.KEY_CHAIN), self._database.get(layout.block_key(0))
        if chain is None or genesis is None:
            if self.has_chain:
                raise self._database.unreadable(ValueError("its genesis is missing"))
            raise DatabaseError(f"the database {self.path} holds no chain yet")
        try:
            self._chain_record = chain
            record = ChainRecord.from_json(orjson.loads(chain))
            info = StoredBlock.decode(0, genesis).info
        except UNREADABLE as error:
            raise self._database.unreadable(error) from error
        return ChainInfo(
            release=self._release(),
            node_info=record.node_info,
            l1_constants=record.l1_constants,
            min_fees=record.min_fees,
            genesis_block_hash=info.hash,
            genesis_archive_root=info.archive_root,
        )

    def _release(self) -> Release:
        name = (self._database.get(layout.KEY_RELEASE) or b"").decode(errors="replace")
        release = next((one for one in releases.known() if one.name == name), None)
        if release is None:
            raise DataDirectoryError(
                f"the chain of {self.path.parent} is of release {name or 'unknown'}, which has no record here: give "
                f"--release-record FILE"
            )
        return release

    def load_genesis(self) -> GenesisRecord:
        """The stored genesis record; DatabaseError when it is damaged."""
        try:
            with self.open_view() as view:
                return GenesisRecord.from_json(orjson.loads(view.genesis_json()))
        except UNREADABLE as error:
            raise self._database.unreadable(error) from error

    def _refuse_other_chain(self, chain: ChainRecord, genesis: GenesisRecord) -> None:
        stored = self.chain
        for name, ours, theirs in (
            ("L1 chain id", stored.l1_chain_id, int(chain.node_info["l1ChainId"])),
            ("rollup version", stored.rollup_version, int(chain.node_info["rollupVersion"])),
            ("genesis block hash", _hex(stored.genesis_block_hash), _hex(genesis.block_hash)),
            ("genesis archive root", _hex(stored.genesis_archive_root), _hex(genesis.archive_root)),
        ):
            if ours != theirs:
                raise DataDirectoryError(
                    f"the data directory {self.path.parent} holds another chain: its {name} is {ours}, "
                    f"the given chain's is {theirs}"
                )

    # ---- reading and writing ---------------------------------------------------------------

    def open_view(self) -> ChainView:
        """A view of the newest committed state.  Cheap: one snapshot and at most eight reads."""
        if self._closed:
            raise DatabaseError(f"the database {self.path} is closed")
        return ChainView(self._database, self.chain)

    def end_giving_back(self) -> None:
        """Write that :attr:`giving_back` has merged everything; to be called while nothing else is written."""
        self._database.write([self.giving_back.end()])

    def write_batch(self) -> WriteBatch:
        """An empty batch."""
        return WriteBatch(self._database)

    def close(self) -> None:
        """Stop using the database.  The files close now, or when the last open view goes."""
        if not self._closed:
            self._closed = True
            self._database.release()

    def __enter__(self) -> ArchiverStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def genesis_entries(chain: ChainRecord, genesis: GenesisRecord) -> Entries:
    """Keys and values of everything that exists before block 1, the tips excepted."""
    entries = {
        layout.KEY_CHAIN: orjson.dumps(chain.to_json()),
        layout.KEY_GENESIS: orjson.dumps(genesis.to_json()),
        layout.KEY_RELEASE: chain.release.name.encode(),
    }
    entries |= {layout.CLASS + class_id: orjson.dumps(item) for class_id, item in genesis.contract_classes}
    entries |= {layout.INSTANCE + address: orjson.dumps(item) for address, item in genesis.contract_instances}
    return entries | _genesis_block_entries(genesis)


def _genesis_block_entries(genesis: GenesisRecord) -> Entries:
    """Keys and values of block 0: stored like any other block, so that reads need no exception for it."""
    variables = genesis.header.global_variables
    block = StoredBlock(
        info=BlockInfo(
            number=0,
            hash=genesis.block_hash,
            archive_root=genesis.archive_root,
            checkpoint_number=0,
            index_within_checkpoint=0,
            slot_number=variables.slot_number,
            timestamp=variables.timestamp,
            tx_count=0,
        ),
        header_json=render(genesis.header),
        archive_json=render(AppendOnlyTreeSnapshot(genesis.archive_root, 1)),
    )
    number = layout.encode_number(0)
    return {
        layout.block_key(0): block.encode(),
        layout.tx_hashes_key(0): b"",
        layout.l2_to_l1_key(0): b"[]",
        layout.BLOCK_BY_HASH + genesis.block_hash: number,
        layout.BLOCK_BY_ARCHIVE + genesis.archive_root: number,
    }


def check_genesis_hash(genesis: GenesisRecord) -> None:
    """BlockRejected when the record's ``blockHash`` is not the hash of its header."""
    computed = genesis.header.hash()
    if computed != genesis.block_hash:
        raise BlockRejected(f"genesis: blockHash is {_hex(genesis.block_hash)}, its header hashes to {_hex(computed)}")


def _version_entry(version: int) -> tuple[bytes, bytes]:
    return layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"%d" % version


def _check_schema(database: SharedDatabase) -> None:
    value = database.get(layout.KEY_SCHEMA)
    if value is None and database.is_empty():
        database.write([_version_entry(layout.SCHEMA_VERSION)])
        return
    digits = (value or b"").removeprefix(layout.SCHEMA_NAME)
    if digits == value or not digits.isdigit():
        raise DataDirectoryError(f"{database.path} is not a fastnode chain database")
    bring_up_to_date(database, int(digits), layout.MIGRATIONS, _version_entry)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()
