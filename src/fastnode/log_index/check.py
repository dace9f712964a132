"""The indexes against the blocks: every entry that should be there is, as it should be, and no other.

Runs of blocks and ranges of tags stand alone, so that several processes may share them; what they find adds up.

The logs of tags are compared in sum, so that a check needs no memory that grows with the chain: the digests
of all (tag, log) pairs, added up, must be the same from the blocks as from the pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from fastnode.archiver.check import DAMAGE, text_of
from fastnode.kernels import effect_logs
from fastnode.log_index import layout
from fastnode.log_index.contracts import contract_entries
from fastnode.log_index.head import IndexHead
from fastnode.log_index.index import log_entries
from fastnode.log_index.layout import LOGS_PER_PAGE
from fastnode.log_index.pages import entries_of_page
from fastnode.protocol.block import L2Block
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["IndexCheck", "IndexFindings", "check_indexes", "conclude_indexes", "heads_elsewhere", "ranges_of_tags"]

#: A check that has found so many stops looking.
PROBLEMS_MAX: Final = 100

#: ``progress(done, total)`` in blocks.
Progress = Callable[[int, int], None]

_HEADS: Final = (IndexHead("logs", layout.LOG_HEAD), IndexHead("contracts", layout.CONTRACT_HEAD))
_DIGEST_BYTES: Final = 16
#: First bytes of tags, which are below the field's modulus, that part them into eight.
_TAG_BOUNDS: Final = range(0x06, 0x30, 0x06)
_TAG_PREFIXES: Final = (layout.PRIVATE_COUNT, layout.PUBLIC_COUNT, layout.PRIVATE_PAGE, layout.PUBLIC_PAGE)
_KINDS: Final = {
    layout.PUBLIC_LOG: "row of public logs",
    layout.PUBLIC_BY_CONTRACT: "row of public logs by contract",
    layout.PUBLIC_BY_TAG: "row of public logs by tag",
    layout.PUBLIC_BY_CONTRACT_AND_TAG: "row of public logs by contract and tag",
    layout.CLASS_LOG: "row of class logs",
    layout.CLASS_BY_CONTRACT: "row of class logs by contract",
    layout.CONTRACT_CLASS: "contract class",
    layout.CONTRACT_INSTANCE: "contract instance",
    layout.INSTANCE_UPDATE: "update of a contract instance",
}


@dataclass(slots=True)
class IndexFindings:
    """Findings of a part of the check: they add up in the order of the blocks."""

    problems: list[str] = field(default_factory=list)
    #: Entries that must be there, by first byte of their keys.
    expected: Counter[bytes] = field(default_factory=Counter)
    #: Sum of the digests of all (tag, log) pairs of blocks, less those of pages.
    digest: int = 0
    #: Keys of contracts that were compared, and those that an earlier run of blocks must have compared, each with the
    #: block that publishes it again.
    compared: set[bytes] = field(default_factory=set)
    published_before: dict[bytes, int] = field(default_factory=dict)

    def add(self, other: IndexFindings) -> None:
        self.problems += other.problems
        self.problems += (
            f"block {number}: a {_KINDS[key[:1]]} is wrong"
            for key, number in other.published_before.items()
            if key not in self.compared
        )
        self.expected += other.expected
        self.digest += other.digest
        self.compared |= other.compared

    def to_json(self) -> dict[str, Any]:
        return {
            "problems": self.problems,
            "expected": {kind.hex(): count for kind, count in self.expected.items()},
            "digest": hex(self.digest),
            "compared": [key.hex() for key in sorted(self.compared)],
            "published_before": {key.hex(): number for key, number in self.published_before.items()},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> IndexFindings:
        """The inverse of :meth:`to_json`; ValueError, KeyError or TypeError for what is none."""
        return cls(
            problems=list(value["problems"]),
            expected=Counter({bytes.fromhex(kind): int(count) for kind, count in value["expected"].items()}),
            digest=int(value["digest"], 16),
            compared={bytes.fromhex(key) for key in value["compared"]},
            published_before={bytes.fromhex(key): int(number) for key, number in value["published_before"].items()},
        )


def check_indexes(chain: ChainView, *, progress: Progress | None = None) -> tuple[list[str], list[str]]:
    """Problems and notes, in sentences.  An index that is not where the chain is, is a note: a start mends it."""
    notes = list(heads_elsewhere(chain))
    if notes:
        return [], notes
    check = IndexCheck(chain)
    for number in range(chain.oldest_body, chain.tip_number + 1):
        block = chain.load_block(number)
        if block is not None:
            check.check_block(block)
        if progress is not None:
            progress(number, chain.tip_number)
        if len(check.findings.problems) >= PROBLEMS_MAX:
            return check.findings.problems, []
    for start, stop in ranges_of_tags():
        check.check_tags(start, stop)
    stored = Counter(key[:1] for key in chain.keys(layout.PRIVATE_COUNT))
    return conclude_indexes(chain, check.findings, stored), []


def ranges_of_tags() -> Iterator[tuple[bytes, bytes]]:
    """Ranges of keys of counts that hold all tags, of about the same size."""
    for prefix in (layout.PRIVATE_COUNT, layout.PUBLIC_COUNT):
        firsts = [prefix, *(prefix + bytes((byte,)) for byte in _TAG_BOUNDS)]
        yield from pairwise([*firsts, layout.after_prefix(prefix)])


def conclude_indexes(chain: ChainView, found: IndexFindings, stored: Counter[bytes]) -> list[str]:
    """All problems: those of the parts, and what only all of them together tell.

    ``stored``: numbers of entries by the first byte of their keys.
    """
    problems = found.problems
    if found.digest and len(problems) < PROBLEMS_MAX:
        problems.append("the logs of all tags together are not those of the blocks")
    if not problems:  # what is wrong already makes the counts differ
        expected = found.expected + _count_pruned(chain)
        for prefix in (*_TAG_PREFIXES, *_KINDS):
            surplus = stored[prefix] - expected[prefix]
            if surplus:
                problems.append(f"{surplus} too many of the kind: {_KINDS.get(prefix, 'count or page of a tag')}")
    return problems


def _count_pruned(chain: ChainView) -> Counter[bytes]:
    """Contracts that pruned blocks have published: nothing is left to work them out from."""
    counts: Counter[bytes] = Counter()
    oldest = chain.oldest_body
    if oldest == 1:
        return counts
    for prefix in (layout.CONTRACT_CLASS, layout.CONTRACT_INSTANCE):
        for _, value in chain.scan(prefix, layout.after_prefix(prefix)):
            counts[prefix] += layout.decode_number(value[: layout.BLOCK_BYTES]) < oldest
    prefix = layout.INSTANCE_UPDATE
    for key, _ in chain.scan(prefix, layout.after_prefix(prefix)):
        counts[prefix] += layout.block_of_inverted(key) < oldest
    return counts


def heads_elsewhere(chain: ChainView) -> Iterator[str]:
    """A note for each index that is not where the chain is."""
    tip = chain.block_info(chain.tip_number)
    for head in _HEADS:
        stored = head.read(chain.get)
        if stored is None:
            if chain.tip_number > 0:
                yield f"there is no index of {head.name} yet; the next start builds it"
        elif tip is None or (stored.version, stored.block_number, stored.archive_root) != (
            layout.LAYOUT_VERSION,
            tip.number,
            tip.archive_root,
        ):
            yield f"the index of {head.name} is at block {stored.block_number} or does not fit; the next start mends it"


class IndexCheck:
    """The check of a part of the blocks, from block ``first`` on, or of the tags."""

    def __init__(self, chain: ChainView, first: int = 1) -> None:
        self.findings = IndexFindings()
        self._chain = chain
        self._first = first
        self._expected = self.findings.expected
        self._published: set[bytes] = set()

    def check_block(self, block: L2Block) -> None:
        """Hold the entries of a block against it; ``first`` and what follows it, in order."""
        try:
            self._check_logs(block)
            self._check_contracts(block)
        except DAMAGE as error:
            self._problem(f"block {block.number}: its entries cannot be read: {text_of(error)}")

    def check_tags(self, start: bytes, stop: bytes) -> None:
        """Hold the pages of tags against their counts: of those with keys of counts from ``start`` to ``stop``."""
        for key, count in self._chain.scan(start, stop):
            tag_key = layout.tag_key_of_count(key)
            try:
                self._check_tag(tag_key, layout.TagCount.decode(count))
            except DAMAGE as error:
                self._problem(f"log tag 0x{tag_key.hex()}: {text_of(error)}")

    def _problem(self, text: str) -> None:
        if len(self.findings.problems) < PROBLEMS_MAX:
            self.findings.problems.append(text)

    # ---- blocks --------------------------------------------------------------------------

    def _check_logs(self, block: L2Block) -> None:
        entries = log_entries(block)
        for key, places in entries.places.items():
            if key.startswith((layout.PUBLIC_LOG, layout.CLASS_LOG)):
                self._compare_places(block, key, layout.encode_places(places))
            else:
                self._compare(block.number, key, layout.encode_places(places))
        for tag_key, logs in entries.tagged.items():
            for log in logs:
                self.findings.digest += _digest_of(tag_key, log)

    def _check_contracts(self, block: L2Block) -> None:
        entries = contract_entries(block, self._chain.chain.release)
        for key, value in entries.published:
            if key not in self._published:
                self._published.add(key)
                self._check_published(block.number, key, value)
        for key, value in entries.updates:
            self._compare(block.number, key, value)

    def _check_published(self, number: int, key: bytes, value: bytes) -> None:
        """Only the first publication of a contract counts: one before this run is compared there, or is pruned."""
        stored = self._chain.get(key)
        block = number if stored is None else int.from_bytes(stored[: layout.BLOCK_BYTES], "big")
        if block < self._chain.oldest_body and self._chain.oldest_body > 1:
            return  # it is counted with those of pruned blocks
        if block < self._first:
            self.findings.published_before[key] = number
            return
        self.findings.compared.add(key)
        self._compare(number, key, value)

    def _compare(self, number: int, key: bytes, value: bytes) -> None:
        self._expected[key[:1]] += 1
        stored = self._chain.get(key)
        if stored != value:
            state = "missing" if stored is None else "wrong"
            self._problem(f"block {number}: a {_KINDS[key[:1]]} is {state}")

    def _compare_places(self, block: L2Block, row: bytes, places: bytes) -> None:
        """Hold the row of all logs of a kind of a block against it, in which keys of single logs may stand."""
        found = b""
        block_hash = b""
        for key, value in self._chain.scan(row, row + b"\xff" * (layout.PLACE_BYTES + 1)):
            self._expected[row[:1]] += 1
            place = key[len(row) :]
            found += place or value
            if place and row.startswith(layout.PUBLIC_LOG):
                _, tx_index, log_index = layout.decode_position(key[1:])
                block_hash = block_hash or block.hash()
                effect = effect_logs.LoggedEffect(self._chain.effect_json(block.number, tx_index))
                if value != effect.public_log(log_index, block_hash, block.number, tx_index):
                    self._problem(f"block {block.number}: a public log is wrong")
        if found != places:
            state = "wrong" if found else "missing"
            self._problem(f"block {block.number}: a {_KINDS[row[:1]]} is {state}")

    # ---- tags ----------------------------------------------------------------------------

    def _check_tag(self, tag_key: bytes, count: layout.TagCount) -> None:
        self._expected[layout.count_key(tag_key)[:1]] += 1
        if count.logs == 0 or count.pruned > count.logs or (count.pruned and self._chain.oldest_body == 1):
            self._problem(f"log tag 0x{tag_key.hex()}: counts {count.logs} logs, {count.pruned} of them pruned")
        if count.pruned >= count.logs:
            return
        newest = (0, 0, 0)
        for page in range(count.pruned // LOGS_PER_PAGE, -(-count.logs // LOGS_PER_PAGE)):
            stored = self._chain.get(layout.page_key(tag_key, page))
            if stored is None:
                self._problem(f"log tag 0x{tag_key.hex()}: page {page} of {count.logs} logs is missing")
                return  # a count that is wrong may say that there are millions of pages
            pruned = count.pruned_of_page(page)
            entries = self._entries_of(tag_key, page, stored, is_cut=pruned > 0)
            logs = [entries[at : at + layout.ENTRY_BYTES] for at in range(0, len(entries), layout.ENTRY_BYTES)]
            if len(logs) != min(LOGS_PER_PAGE, count.logs - page * LOGS_PER_PAGE) - pruned:
                self._problem(f"log tag 0x{tag_key.hex()}: page {page} has {len(logs)} logs, of {count} in all")
            for log in logs:
                self.findings.digest -= _digest_of(tag_key, log)
                position = layout.decode_position(log)
                if position <= newest:
                    self._problem(f"log tag 0x{tag_key.hex()}: page {page} is not in order")
                newest = position
            self._expected[layout.page_key(tag_key, page)[:1]] += 1

    def _entries_of(self, tag_key: bytes, number: int, stored: bytes, *, is_cut: bool) -> bytes:
        """Entries of a page; those of logs in JSON must render as them."""
        entries = entries_of_page(self._chain.get, tag_key, number, stored)
        page = stored.removeprefix(layout.CUT_PAGE)
        is_public = len(tag_key) > layout.TAG_BYTES
        again = layout.ENTRIES + entries
        if not page.startswith(layout.ENTRIES):
            again = effect_logs.page_json(self._chain.get, is_public, entries)
        if stored != (layout.CUT_PAGE if is_cut else b"") + again or len(entries) % layout.ENTRY_BYTES:
            self._problem(f"log tag 0x{tag_key.hex()}: page {number} is damaged")
            return b""
        return entries


def _digest_of(tag_key: bytes, log: bytes) -> int:
    return int.from_bytes(blake2b(tag_key + log, digest_size=_DIGEST_BYTES).digest(), "big")
