"""A cursor over a big-endian buffer, for the structures whose length is not fixed."""

from __future__ import annotations

from fastnode.errors import DecodeError
from fastnode.protocol.fields import FIELD_BYTES, MODULUS_BYTES, first_non_canonical


class ByteReader:
    """Reads forward; every failure is a DecodeError that names ``what`` and the offset."""

    __slots__ = ("_buffer", "_offset", "_what", "has_optional")

    def __init__(self, buffer: bytes, what: str, *, has_optional: bool = False) -> None:
        self._buffer = buffer
        self._offset = 0
        self._what = what
        #: True when the size of the buffer says that members inside the record that are optional are there.
        self.has_optional = has_optional

    def take(self, count: int) -> bytes:
        start, end = self._offset, self._offset + count
        if end > len(self._buffer):
            raise DecodeError(f"{self._what}: needs {count} bytes at offset {start}, {len(self._buffer) - start} left")
        self._offset = end
        return self._buffer[start:end]

    def unsigned(self, width: int) -> int:
        """A ``width``-byte unsigned integer."""
        return int.from_bytes(self.take(width), "big")

    def fields(self, count: int) -> bytes:
        """``count`` joined field elements, each below the modulus."""
        start = self._offset
        fields = self.take(count * FIELD_BYTES)
        position = first_non_canonical(fields)
        if position is not None:
            offset = start + position * FIELD_BYTES
            raise DecodeError(f"{self._what}: the field at offset {offset} is not below the field modulus")
        return fields

    def field(self) -> bytes:
        """One field element, below the modulus."""
        # Fast path: in one step what `fields` does for many.
        end = self._offset + FIELD_BYTES
        field = self._buffer[self._offset : end]
        if len(field) == FIELD_BYTES and field < MODULUS_BYTES:
            self._offset = end
            return field
        return self.fields(1)

    def count(self, width: int, maximum: int, name: str) -> int:
        """A vector's count prefix of ``width`` bytes, at most ``maximum``."""
        value = self.unsigned(width)
        if value > maximum:
            raise DecodeError(f"{self._what}: {value} {name}, at most {maximum} allowed")
        return value

    def number(self, width: int, maximum: int, name: str) -> int:
        """A ``width``-byte unsigned integer, at most ``maximum``."""
        value = self.unsigned(width)
        if value > maximum:
            raise DecodeError(f"{self._what}: {name} {value} is above {maximum}")
        return value

    @property
    def is_at_end(self) -> bool:
        return self._offset == len(self._buffer)

    def finish(self) -> None:
        """Refuses trailing bytes."""
        left = len(self._buffer) - self._offset
        if left:
            raise DecodeError(f"{self._what}: {left} bytes left over")
