"""The indexes against the blocks: every entry that should be there is, as it should be, and no other.

The logs of tags are compared in sum, so that a check needs no memory that grows with the chain: the digests
of all (tag, log) pairs, added up, must be the same from the blocks as from the pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from fastnode.log_index import layout
from fastnode.log_index.contracts import contract_entries
from fastnode.log_index.head import IndexHead
from fastnode.log_index.index import log_entries
from fastnode.log_index.layout import LOGS_PER_PAGE
from fastnode.log_index.rendering import join_pages, logs_of_page
from fastnode.protocol.block import L2Block

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["check_indexes"]

#: A check that has found so many stops looking.
PROBLEMS_MAX: Final = 100

#: ``progress(done, total)`` in blocks.
Progress = Callable[[int, int], None]

_HEADS: Final = (IndexHead("logs", layout.LOG_HEAD), IndexHead("contracts", layout.CONTRACT_HEAD))
_BLOCK_NUMBER: Final = re.compile(rb'"blockNumber":(\d+)')
_DIGEST_BYTES: Final = 16
_TAG_PREFIXES: Final = (layout.PRIVATE_COUNT, layout.PUBLIC_COUNT, layout.PRIVATE_PAGE, layout.PUBLIC_PAGE)
_KINDS: Final = {
    layout.PUBLIC_LOG: "public log",
    layout.PUBLIC_BY_CONTRACT: "row of public logs by contract",
    layout.PUBLIC_BY_TAG: "row of public logs by tag",
    layout.PUBLIC_BY_CONTRACT_AND_TAG: "row of public logs by contract and tag",
    layout.CLASS_LOG: "class log",
    layout.CLASS_BY_CONTRACT: "row of class logs by contract",
    layout.CONTRACT_CLASS: "contract class",
    layout.CONTRACT_INSTANCE: "contract instance",
    layout.INSTANCE_UPDATE: "update of a contract instance",
}


def check_indexes(chain: ChainView, *, progress: Progress | None = None) -> tuple[list[str], list[str]]:
    """Problems and notes, in sentences.  An index that is not where the chain is, is a note: a start mends it."""
    notes = list(_heads_elsewhere(chain))
    if notes:
        return [], notes
    check = _Check(chain)
    check.run(progress)
    return check.problems, []


def _heads_elsewhere(chain: ChainView) -> Iterator[str]:
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


class _Check:
    def __init__(self, chain: ChainView) -> None:
        self.problems: list[str] = []
        self._chain = chain
        self._expected: Counter[bytes] = Counter()
        self._published: set[bytes] = set()
        self._digest = 0

    def run(self, progress: Progress | None) -> None:
        for number in range(self._chain.oldest_body, self._chain.tip_number + 1):
            block = self._chain.load_block(number)
            if block is not None:
                self._check_logs(block)
                self._check_contracts(block)
            if progress is not None:
                progress(number, self._chain.tip_number)
            if len(self.problems) >= PROBLEMS_MAX:
                return
        self._count_pruned()
        for prefix in (layout.PRIVATE_COUNT, layout.PUBLIC_COUNT):
            for key, count in self._chain.scan(prefix, layout.after_prefix(prefix)):
                self._check_tag(layout.tag_key_of_count(key), layout.TagCount.decode(count))
        if self._digest:
            self.problems.append("the logs of all tags together are not those of the blocks")
        self._check_keys()

    # ---- blocks --------------------------------------------------------------------------

    def _check_logs(self, block: L2Block) -> None:
        entries = log_entries(block)
        for key, value in entries.logs:
            self._compare(block.number, key, value)
        for key, places in entries.places.items():
            self._compare(block.number, key, layout.encode_places(places))
        for tag_key, logs in entries.tagged.items():
            for log in logs:
                self._digest += _digest_of(tag_key, log)

    def _check_contracts(self, block: L2Block) -> None:
        entries = contract_entries(block, self._chain.chain.release)
        for key, value in entries.published:
            if key not in self._published:
                self._published.add(key)
                if not self._is_of_pruned(key):
                    self._compare(block.number, key, value)
        for key, value in entries.updates:
            self._compare(block.number, key, value)

    def _is_of_pruned(self, key: bytes) -> bool:
        """True if a pruned block has published this contract before: it is counted with those."""
        if self._chain.oldest_body == 1:
            return False
        stored = self._chain.get(key)
        return stored is not None and layout.decode_number(stored[: layout.BLOCK_BYTES]) < self._chain.oldest_body

    def _count_pruned(self) -> None:
        """Contracts that pruned blocks have published: nothing is left to work them out from."""
        oldest = self._chain.oldest_body
        if oldest == 1:
            return
        for prefix in (layout.CONTRACT_CLASS, layout.CONTRACT_INSTANCE):
            for _, value in self._chain.scan(prefix, layout.after_prefix(prefix)):
                self._expected[prefix] += layout.decode_number(value[: layout.BLOCK_BYTES]) < oldest
        prefix = layout.INSTANCE_UPDATE
        for key, _ in self._chain.scan(prefix, layout.after_prefix(prefix)):
            self._expected[prefix] += layout.block_of_inverted(key) < oldest

    def _compare(self, number: int, key: bytes, value: bytes) -> None:
        self._expected[key[:1]] += 1
        stored = self._chain.get(key)
        if stored != value:
            state = "missing" if stored is None else "wrong"
            self.problems.append(f"block {number}: a {_KINDS[key[:1]]} is {state}")

    # ---- tags ----------------------------------------------------------------------------

    def _check_tag(self, tag_key: bytes, count: layout.TagCount) -> None:
        self._expected[layout.count_key(tag_key)[:1]] += 1
        if count.logs == 0 or count.pruned > count.logs or (count.pruned and self._chain.oldest_body == 1):
            self.problems.append(f"log tag 0x{tag_key.hex()}: counts {count.logs} logs, {count.pruned} of them pruned")
        if count.pruned >= count.logs:
            return
        newest = 0
        for page in range(count.pruned // LOGS_PER_PAGE, -(-count.logs // LOGS_PER_PAGE)):
            stored = self._chain.get(layout.page_key(tag_key, page))
            pruned = count.pruned_of_page(page)
            logs = [] if stored is None else logs_of_page(stored.removeprefix(layout.CUT_PAGE))
            if stored is not None and stored != (layout.CUT_PAGE if pruned else b"") + join_pages(b"", logs):
                self.problems.append(f"log tag 0x{tag_key.hex()}: page {page} is no array")
            if len(logs) != min(LOGS_PER_PAGE, count.logs - page * LOGS_PER_PAGE) - pruned:
                self.problems.append(f"log tag 0x{tag_key.hex()}: page {page} has {len(logs)} logs, of {count} in all")
            for log in logs:
                self._digest -= _digest_of(tag_key, log)
                found = _BLOCK_NUMBER.search(log)
                number = int(found[1]) if found else 0
                if number < newest:
                    self.problems.append(f"log tag 0x{tag_key.hex()}: page {page} is not in order")
                newest = number
            self._expected[layout.page_key(tag_key, page)[:1]] += 1

    # ---- keys ----------------------------------------------------------------------------

    def _check_keys(self) -> None:
        """True if there are entries that belong to nothing."""
        if self.problems:
            return  # what is wrong already makes the counts differ
        for prefix in (*_TAG_PREFIXES, *_KINDS):
            found = sum(1 for _ in self._chain.scan(prefix, layout.after_prefix(prefix)))
            surplus = found - self._expected[prefix]
            if surplus:
                self.problems.append(f"{surplus} too many of the kind: {_KINDS.get(prefix, 'count or page of a tag')}")


def _digest_of(tag_key: bytes, log: bytes) -> int:
    return int.from_bytes(blake2b(tag_key + log, digest_size=_DIGEST_BYTES).digest(), "big")
