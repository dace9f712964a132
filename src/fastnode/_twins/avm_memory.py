"""Memory of the public virtual machine, and what calls see of the memory of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from fastnode._twins.avm_instructions import FF
from fastnode.errors import ExecutionMemoryExceeded

#: Addresses are below this.
MEMORY_CELLS: Final = 1 << 32

#: The unit in which memory is counted against the limit.
PAGE_CELLS: Final = 8
PAGE_BYTES: Final = 256
#: Count of every open call before it has written anything.
CALL_PAGES: Final = 264


class Cell(NamedTuple):
    """``value`` always fits ``tag``."""

    tag: int
    value: int


UNTOUCHED: Final = Cell(FF, 0)


class PageAccount:
    """Counts the pages that all open calls have together."""

    def __init__(self, limit: int) -> None:
        self._limit, self._pages = limit, 0

    def take(self, pages: int) -> None:
        self._pages += pages
        if self._pages * PAGE_BYTES > self._limit:
            raise ExecutionMemoryExceeded(self._limit)

    def give_back(self, pages: int) -> None:
        self._pages -= pages


class Memory:
    """2^32 cells, each a field zero until it is written.  Counts against ``account`` until it is released."""

    def __init__(self, account: PageAccount) -> None:
        self._cells: dict[int, Cell] = {}
        self._pages: set[int] = set()
        self._account = account
        account.take(CALL_PAGES)

    def read(self, address: int) -> Cell:
        return self._cells.get(address, UNTOUCHED)

    def read_range(self, start: int, size: int) -> list[Cell]:
        return [self.read(address) for address in range(start, start + size)]

    def write(self, address: int, tag: int, value: int) -> None:
        page = address // PAGE_CELLS
        if page not in self._pages:
            self._account.take(1)
            self._pages.add(page)
        self._cells[address] = Cell(tag, value)

    def release(self) -> None:
        self._account.give_back(CALL_PAGES + len(self._pages))


class Data(Protocol):
    """Calldata or return data of a call.  ``start`` is only of interest for the check of a copy's range."""

    start: int
    size: int

    def value(self, index: int) -> int: ...
    def first(self, count: int) -> list[int]:
        """At most so many values."""


class GivenData:
    """Fields given from outside."""

    start: int = 0

    def __init__(self, values: Sequence[int]) -> None:
        self._values, self.size = values, len(values)

    def value(self, index: int) -> int:
        return self._values[index]

    def first(self, count: int) -> list[int]:
        return list(self._values[:count])


class MemoryData:
    """A range of another call's memory, whose tags are dropped.  It may lead out of memory; then copies fail."""

    def __init__(self, memory: Memory, start: int, size: int) -> None:
        self._memory, self.start, self.size = memory, start, size

    def value(self, index: int) -> int:
        return self._memory.read(self.start + index).value

    def first(self, count: int) -> list[int]:
        """Addresses wrap around."""
        indices = range(min(count, self.size))
        return [self._memory.read((self.start + index) % MEMORY_CELLS).value for index in indices]


NO_DATA: Final = GivenData(())
