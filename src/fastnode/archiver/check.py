"""``fastnode db check``: everything in the chain database, recomputed and compared.

The check goes by runs of blocks, which begin with an epoch: each stands alone, so that several processes may share
them.  Each block and checkpoint is decoded from its stored JSON, verified as if it had just arrived, and
what it must have stored is compared with what is there.  Then all keys are counted, so that
nothing can lie in the database that belongs to no block.  State roots, archive roots and the
genesis' public data are claims that only the state trees can judge; they are not judged here.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, Final

import orjson

from fastnode.archiver import layout
from fastnode.archiver.entries import Entries, block_entries, checkpoint_entries, message_entries
from fastnode.archiver.messages import first_index_after, in_hash_before
from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import BlockInfo, StoredCheckpoint, StoredTransaction
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.archiver.store import UNREADABLE, ArchiverStore, check_genesis_hash, genesis_entries
from fastnode.archiver.verification import CheckpointVerifier, Verification, check_messages, require
from fastnode.errors import BlockRejected, DatabaseError
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    Checkpoint,
    CheckpointHeader,
    CommitteeAttestation,
    L1PublishedData,
    PublishedCheckpoint,
    block_headers_hash,
    header_in_hash,
)
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader
from fastnode.protocol.out_hash import checkpoint_out_hash, epoch_out_hash
from fastnode.records import dataclass

__all__ = [
    "DAMAGE",
    "ChainCheck",
    "ChainFindings",
    "CheckReport",
    "check_database",
    "conclude_chain",
    "count_keys",
    "runs_of_epochs",
    "text_of",
]

#: After so many findings the walk ends: the database is lost, and the operator knows.
PROBLEMS_MAX: Final = 100

#: Kind of value under a key, by its first byte.
_KINDS: Final = {
    layout.KEY_SCHEMA: "the schema version",
    layout.KEY_CHAIN: "the chain record",
    layout.KEY_RELEASE: "the name of the release",
    layout.KEY_GENESIS: "the genesis record",
    layout.KEY_TIPS: "the tips",
    layout.KEY_UNDO: "the mark of an interrupted undo",
    layout.KEY_OLDEST_BODY: "the number of the oldest block with a body",
    layout.KEY_DROPPED: "the count of pruned bytes",
    layout.KEY_NOT_PACKED: "the first key that is not packed",
    layout.CLASS: "contract class",
    layout.INSTANCE: "contract instance",
    layout.BLOCK: "block record",
    layout.EFFECT: "transaction effect",
    layout.TX_HASHES: "list of transaction hashes",
    layout.L2_TO_L1: "list of L2->L1 messages",
    layout.CHECKPOINT: "checkpoint record",
    layout.L1_TO_L2: "list of L1->L2 messages",
    layout.BLOCK_BY_HASH: "index entry of the block hash",
    layout.BLOCK_BY_ARCHIVE: "index entry of the archive root",
    layout.TRANSACTION: "transaction record",
    layout.CHECKPOINT_BY_SLOT: "index entry of the slot",
    layout.MESSAGE: "index entry of an L1->L2 message",
}
#: First byte of the keys that belong to index writers.
_RESERVED_FROM: Final = 0x80

#: Errors that damaged values may raise in their reader.
DAMAGE: Final = (BlockRejected, DatabaseError, *UNREADABLE)

#: ``progress(done, total)`` in blocks.
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class CheckReport:
    """Report of a walk: counts and findings.  ``problems`` are sentences; none means that the database is clean.

    ``notes`` are things to know that are no fault.
    """

    blocks: int = 0
    checkpoints: int = 0
    transactions: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class ChainFindings:
    """Findings of a part of the check: they add up in the order of the parts."""

    blocks: int = 0
    checkpoints: int = 0
    transactions: int = 0
    #: Number of the newest sound checkpoint, 0 for none.
    newest_complete: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Entries that must be there, by first byte of their keys.
    expected: Counter[bytes] = field(default_factory=Counter)

    def add(self, other: ChainFindings) -> None:
        self.blocks += other.blocks
        self.checkpoints += other.checkpoints
        self.transactions += other.transactions
        self.newest_complete = max(self.newest_complete, other.newest_complete)
        self.problems += other.problems
        self.notes += other.notes
        self.expected += other.expected

    def to_json(self) -> dict[str, Any]:
        expected = {kind.hex(): count for kind, count in self.expected.items()}
        return {name: getattr(self, name) for name in self.__slots__} | {"expected": expected}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ChainFindings:
        """The inverse of :meth:`to_json`; ValueError, KeyError or TypeError for what is none."""
        expected = {bytes.fromhex(kind): int(count) for kind, count in value["expected"].items()}
        return cls(**(value | {"expected": Counter(expected)}))


def check_database(store: ArchiverStore, *, progress: Progress | None = None) -> CheckReport:
    """Check the whole chain database.  Never raises for what it finds; reads from one snapshot."""
    report = CheckReport()
    try:
        if not store.has_chain:
            report.notes.append("the database holds no chain yet")
            return report
        with store.open_view() as view:
            tip = view.tip_number
            check = ChainCheck(view, on_block=None if progress is None else lambda number: progress(number, tip))
            check.check_head()
            check.check_blocks(1, tip)
            stored: Counter[bytes] = Counter()
            try:
                stored = count_keys(view)
            except DAMAGE as error:
                check.findings.problems.append(f"the keys: {text_of(error)}")
            conclude_chain(view, check.findings, report, stored)
    except DAMAGE as error:
        report.problems.append(f"the database cannot be read: {text_of(error)}")
    return report


def runs_of_epochs(view: ChainView, blocks: int) -> list[tuple[int, int]]:
    """First and last blocks of runs of some ``blocks`` that begin with an epoch each, as the checkpoints of an epoch
    are checked together."""
    firsts, tip = [1], view.tip_number
    for near in range(1 + blocks, tip + 1, blocks):
        first = max(near, firsts[-1] + 1)
        while first <= tip and _epoch_of(view, first) == _epoch_of(view, first - 1):
            first += 1
        if first <= tip:
            firsts.append(first)
    return list(zip(firsts, [first - 1 for first in firsts[1:]] + [tip], strict=True)) if tip else []


def _epoch_of(view: ChainView, number: int) -> int | None:
    """None for a block that cannot be read: a run goes on over it."""
    try:
        info = view.block_info(number)
    except DAMAGE:
        return None
    return None if info is None else info.slot_number // view.chain.epoch_duration


def count_keys(view: ChainView, start: bytes = b"", stop: bytes | None = None) -> Counter[bytes]:
    """Numbers of stored entries by the first byte of their keys, read with their checksums."""
    return Counter(key[:1] for key in view.keys(start, stop))


def conclude_chain(view: ChainView, found: ChainFindings, report: CheckReport, stored: Counter[bytes]) -> None:
    """Add the findings of all parts to ``report``, and what only all of them together tell.

    ``stored``: :func:`count_keys` over all keys.
    """
    problems = found.problems
    if len(problems) < PROBLEMS_MAX:
        try:
            problems += _faults_of_tips(view, found.newest_complete)
        except DAMAGE as error:
            problems.append(f"the tips: {text_of(error)}")
    report.blocks, report.checkpoints, report.transactions = found.blocks, found.checkpoints, found.transactions
    report.notes += found.notes
    if stored[layout.KEY_UNDO]:
        report.notes.append("an undo was interrupted; the next start finishes it")
    if not problems:  # what is wrong already makes the counts differ
        problems += _surplus_keys(found.expected, stored)
    if len(problems) >= PROBLEMS_MAX:
        report.notes.append(f"stopped after {PROBLEMS_MAX} problems")
    report.problems += problems[:PROBLEMS_MAX]


def _faults_of_tips(view: ChainView, newest_complete: int) -> Iterator[str]:
    tips = view.stored_tips()
    if not tips.finalized <= tips.proven <= tips.checkpointed:
        yield (
            f"the tips: finalized {tips.finalized}, proven {tips.proven}, checkpointed {tips.checkpointed} are not in "
            f"order"
        )
    if tips.checkpointed != newest_complete:
        yield f"the tips: checkpointed is {tips.checkpointed}, the newest sound checkpoint is {newest_complete}"


def _surplus_keys(expected: Counter[bytes], stored: Counter[bytes]) -> Iterator[str]:
    """Entries that belong to nothing."""
    marks = (layout.KEY_UNDO, layout.KEY_OLDEST_BODY, layout.KEY_DROPPED, layout.KEY_NOT_PACKED)
    wanted = expected + Counter((layout.KEY_SCHEMA, layout.KEY_TIPS))
    for kind in sorted(stored.keys() | wanted.keys()):
        surplus = stored[kind] - wanted[kind]
        if surplus and kind not in marks and kind[0] < _RESERVED_FROM:
            name = _KINDS.get(kind, f"key that starts with {kind!r}")
            yield f"{surplus} too many of the kind: {name}"


class _TooManyProblemsError(Exception):
    pass


class ChainCheck:
    """The check of a part of the chain.  ``on_block`` is told of each number, ``on_body`` gets each block that is
    whole."""

    def __init__(
        self,
        view: ChainView,
        *,
        on_block: Callable[[int], object] | None = None,
        on_body: Callable[[L2Block], None] | None = None,
    ) -> None:
        self._view = view
        self._on_block = on_block
        self._on_body = on_body
        self.findings = ChainFindings()
        self._expected = self.findings.expected
        self._epoch = -1
        self._out_hashes: list[bytes] = []  # of the epoch's checkpoints so far

    def check_head(self) -> None:
        """Check the genesis and the oldest block with a body."""
        with contextlib.suppress(_TooManyProblemsError):
            with self._noting("the genesis"):
                self._check_genesis()
            with self._noting("the oldest block with a body"):
                self._check_oldest_body()

    def check_blocks(self, first: int, last: int) -> None:
        """The blocks of a run, with their checkpoints; it ends early when the database is lost."""
        with contextlib.suppress(_TooManyProblemsError):
            for _, group in groupby(self._block_infos(first, last), key=lambda info: info.checkpoint_number):
                self._check_run(list(group))

    # ---- findings ------------------------------------------------------------------------

    def _problem(self, text: str) -> None:
        self.findings.problems.append(text)
        if len(self.findings.problems) >= PROBLEMS_MAX:
            raise _TooManyProblemsError

    @contextlib.contextmanager
    def _noting(self, where: str) -> Iterator[None]:
        """An error inside becomes a problem, and the walk goes on behind it."""
        try:
            yield
        except BlockRejected as error:
            self._problem(str(error))  # says where itself
        except DAMAGE as error:
            self._problem(f"{where}: {text_of(error)}")

    def _compare(self, where: str, entries: Entries) -> None:
        for key, expected in entries.items():
            kind = key[:1]
            self._expected[kind] += 1
            stored = self._view.get(key)
            if stored != expected:
                self._problem(f"{where}: its {_KINDS[kind]} {'is missing' if stored is None else 'is wrong'}")

    # ---- the walk ------------------------------------------------------------------------

    def _check_genesis(self) -> None:
        chain = ChainRecord.from_json(orjson.loads(self._view.get(layout.KEY_CHAIN) or b""))
        genesis = GenesisRecord.from_json(orjson.loads(self._view.genesis_json()))
        check_genesis_hash(genesis)
        self._compare("the genesis", genesis_entries(chain, genesis))

    def _check_oldest_body(self) -> None:
        """It is the first block of a checkpoint, also above the final ones: an operator's rollback lowers those."""
        oldest = self._view.oldest_body
        if self._view.get(layout.KEY_OLDEST_BODY) is None:
            return
        self.findings.notes.append(f"bodies and logs are kept of blocks from {oldest} on; those before are pruned")
        if not 1 <= oldest <= self._view.tip_number + 1:
            self._problem(f"the oldest block with a body: it is {oldest}, the newest block is {self._view.tip_number}")
        info = self._view.block_info(oldest)
        if info is not None:
            require(f"block {oldest}, the oldest with a body", "indexWithinCheckpoint", info.index_within_checkpoint, 0)

    def _block_infos(self, first: int, last: int) -> Iterator[BlockInfo]:
        """One that is missing is a problem and leaves a gap."""
        for number in range(first, last + 1):
            with self._noting(f"block {number}"):
                info = self._view.block_info(number)
                assert info is not None
                yield info
            if self._on_block is not None:
                self._on_block(number)

    def _check_run(self, infos: Sequence[BlockInfo]) -> None:
        """The blocks of one checkpoint, then the checkpoint itself when it is complete."""
        view, number = self._view, infos[0].checkpoint_number
        with self._noting(f"checkpoint {number}"):
            parent = view.block_info(infos[0].number - 1)
            assert parent is not None
            verifier = CheckpointVerifier(
                parent,
                chain_id=view.chain.l1_chain_id,
                version=view.chain.rollup_version,
                mode=Verification.FULL,
                release=view.chain.release,
            )
            messages = view.l1_to_l2_messages(number)
            check_messages(number, messages)
            first_index = first_index_after(view, parent.number, number)
            self._compare(f"checkpoint {number}", message_entries(number, messages, first_index))
            if infos[0].number < view.oldest_body:
                self._check_pruned(infos, messages)
                return
            blocks = tuple(self._check_block(info, verifier) for info in infos)
            if number <= view.tips.checkpointed.checkpoint.number:
                self._check_checkpoint(number, blocks, messages, verifier)

    def _check_block(self, info: BlockInfo, verifier: CheckpointVerifier) -> L2Block:
        where = f"block {info.number}"
        block = self._view.load_block(info.number)
        assert block is not None
        require(where, "header.globalVariables.blockNumber", block.number, info.number)
        block_hash = block.hash()
        verifier.check_block(block, block_hash)
        self._compare(where, block_entries(block, block_hash, epoch_duration=self._view.chain.epoch_duration))
        self.findings.blocks += 1
        self.findings.transactions += info.tx_count
        if self._on_body is not None:
            self._on_body(block)
        return block

    # ---- pruned blocks -------------------------------------------------------------------

    def _check_pruned(self, infos: Sequence[BlockInfo], messages: Sequence[bytes]) -> None:
        """A checkpoint without its bodies: what is left of it agrees with its headers."""
        number = infos[0].checkpoint_number
        stored = self._view.checkpoint(number)
        if stored is None:
            raise BlockRejected(f"checkpoint {number}: its {_KINDS[layout.CHECKPOINT]} is missing")
        for info in infos:
            self._check_pruned_block(info)
        where = f"checkpoint {number}"
        header = CheckpointHeader.from_json(orjson.loads(stored.header_json), f"{where}.header")
        require(where, "header hash", header.hash(), stored.header_hash)
        require(where, "blocks", (infos[0].number, len(infos)), (stored.start_block, stored.block_count))
        in_header = block_headers_hash([info.hash for info in infos], self._view.chain.release.separators.block_headers)
        require(where, "header.blockHeadersHash", header.block_headers_hash, in_header)
        before = in_hash_before(self._view, number)
        expected = header_in_hash(self._view.chain.release, messages, before)
        require(where, f"header.{header.in_hash_name}", header.in_hash, expected)
        out_hash = checkpoint_out_hash([self._view.l2_to_l1_messages_of_block(info.number) or [] for info in infos])
        require(where, "header.epochOutHash", header.epoch_out_hash, self._epoch_out_hash(header, out_hash))
        require(where, "out hash", stored.out_hash, out_hash)
        slot = {layout.slot_key(header.slot_number): layout.encode_number(number)}
        self._compare(where, slot | {layout.checkpoint_key(number): stored.encode()})
        self.findings.checkpoints += 1
        self.findings.newest_complete = number

    def _check_pruned_block(self, info: BlockInfo) -> None:
        """Its header has the hash that everything names; its transactions are those of the list, in order."""
        where, number = f"block {info.number}", info.number
        block = self._view.block(number)
        assert block is not None
        header = BlockHeader.from_json(orjson.loads(block.header_json), f"{where}.header")
        variables = header.global_variables
        require(where, "hash", header.hash(), info.hash)
        require(where, "header.globalVariables.blockNumber", variables.block_number, number)
        require(where, "slot", info.slot_number, variables.slot_number)
        require(where, "timestamp", info.timestamp, variables.timestamp)
        archive = AppendOnlyTreeSnapshot.from_json(orjson.loads(block.archive_json), f"{where}.archive")
        require(where, "archive root", info.archive_root, archive.root)
        parent = self._view.block_info(number - 1)
        assert parent is not None
        require(where, "header.lastArchive.root", header.last_archive.root, parent.archive_root)
        hashes = self._view.tx_hashes(number) or []
        require(where, "number of transactions", len(hashes), info.tx_count)
        stored = layout.encode_number(number)
        self._compare(where, {layout.BLOCK_BY_HASH + info.hash: stored, layout.BLOCK_BY_ARCHIVE + archive.root: stored})
        self._expected.update((layout.BLOCK, layout.TX_HASHES, layout.L2_TO_L1))
        for index, tx_hash in enumerate(hashes):
            self._expected[layout.TRANSACTION] += 1
            record = self._view.get(layout.TRANSACTION + tx_hash)
            if record is None or StoredTransaction.decode(record)[:2] != (number, index):
                self._problem(
                    f"{where}: its {_KINDS[layout.TRANSACTION]} is {'missing' if record is None else 'wrong'}"
                )
        self.findings.blocks += 1
        self.findings.transactions += info.tx_count

    def _epoch_out_hash(self, header: CheckpointHeader, out_hash: bytes) -> bytes:
        """Hash over the epoch's checkpoints up to the one with this out hash, which comes next."""
        epoch = header.slot_number // self._view.chain.epoch_duration
        if epoch != self._epoch:
            self._epoch, self._out_hashes = epoch, []
        self._out_hashes.append(out_hash)
        return epoch_out_hash(self._out_hashes)

    # ---- checkpoints ---------------------------------------------------------------------

    def _check_checkpoint(
        self, number: int, blocks: tuple[L2Block, ...], messages: Sequence[bytes], verifier: CheckpointVerifier
    ) -> None:
        where = f"checkpoint {number}"
        stored = self._view.checkpoint(number)
        if stored is None:
            raise BlockRejected(f"{where}: its {_KINDS[layout.CHECKPOINT]} is missing")
        published = _published(stored, blocks)
        header = published.checkpoint.header
        epoch = header.slot_number // self._view.chain.epoch_duration
        if epoch != self._epoch:
            self._epoch, self._out_hashes = epoch, []
        before = in_hash_before(self._view, number)
        out_hash = verifier.check_checkpoint(published.checkpoint, messages, self._out_hashes, before)
        self._out_hashes.append(out_hash)
        self._compare(where, checkpoint_entries(published, header_hash=header.hash(), out_hash=out_hash))
        self.findings.checkpoints += 1
        self.findings.newest_complete = number


def _published(stored: StoredCheckpoint, blocks: tuple[L2Block, ...]) -> PublishedCheckpoint:
    where = f"checkpoint {stored.number}"
    checkpoint = Checkpoint(
        archive=AppendOnlyTreeSnapshot.from_json(orjson.loads(stored.archive_json), f"{where}.archive"),
        header=CheckpointHeader.from_json(orjson.loads(stored.header_json), f"{where}.header"),
        blocks=blocks,
        number=stored.number,
        fee_asset_price_modifier=stored.fee_asset_price_modifier,
    )
    attestations = orjson.loads(stored.attestations_json)
    return PublishedCheckpoint(
        checkpoint=checkpoint,
        l1=L1PublishedData.from_json(orjson.loads(stored.l1_json), f"{where}.l1"),
        attestations=tuple(CommitteeAttestation.from_json(item, f"{where}.attestations") for item in attestations),
    )


def text_of(error: BaseException) -> str:
    """The message of an error of a reader."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(error) or type(error).__name__
