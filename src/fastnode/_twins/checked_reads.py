"""Reads of a LevelDB snapshot that verify checksums and say in one place what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, final

__all__ = ["CheckedIterator", "CheckedSeeks", "CheckedSnapshot"]

ErrorOf = Callable[[Exception], Exception]


@final
class CheckedSnapshot:
    def __init__(self, snapshot: Any, error_of: ErrorOf) -> None:
        self._snapshot = snapshot
        self._error_of = error_of

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._snapshot.get(key, verify_checksums=True)
        except Exception as error:
            raise self._error_of(error) from error
        return value

    def iterator(self, **bounds: Any) -> CheckedIterator:
        try:
            return CheckedIterator(self._snapshot.iterator(verify_checksums=True, **bounds), self._error_of)
        except Exception as error:
            raise self._error_of(error) from error

    def raw_iterator(self) -> CheckedSeeks:
        try:
            return CheckedSeeks(self._snapshot.raw_iterator(verify_checksums=True), self._error_of)
        except Exception as error:
            raise self._error_of(error) from error

    def close(self) -> None:
        self._snapshot.close()


@final
class CheckedIterator:
    def __init__(self, entries: Any, error_of: ErrorOf) -> None:
        self._entries = entries
        self._error_of = error_of

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._entries)
        except StopIteration:
            raise
        except Exception as error:
            raise self._error_of(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._entries.close()


@final
class CheckedSeeks:
    def __init__(self, raw: Any, error_of: ErrorOf) -> None:
        self._raw = raw
        self._error_of = error_of
        self.close = raw.close

    def first(self, key: bytes) -> tuple[bytes, bytes] | None:
        try:
            self._raw.seek(key)
        except Exception as error:
            raise self._error_of(error) from error
        return (self._raw.key(), self._raw.value()) if self._raw.valid() else None
