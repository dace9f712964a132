"""Field elements, and the hashes and addresses that are ones: 32 bytes, below the modulus."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any, ClassVar, Final

from fastnode.kernels import encode
from fastnode.records import dataclass
from fastnode.values.refusal import Reject, describe
from fastnode.values.schemas import Schema
from fastnode.values.value_type import NamedType

__all__ = ["ADDRESS", "BLOCK_HASH", "FIELD", "TX_HASH", "Field", "FullHash"]


class _FieldType(NamedType):
    """A type whose text form is its JSON form."""

    __slots__ = ()

    def from_text(self, text: str) -> Any:
        return self.from_json(text)

    def to_text(self, value: Any) -> str:
        return "0x" + value.hex()  # type: ignore[no-any-return]

    def to_json(self, value: Any) -> str:
        return self.to_text(value)

    def _read(self, text: str, given: object) -> bytes:
        try:
            return bytes(encode.field_from_text(text))
        except ValueError as error:
            raise Reject(f"must be {self.expects}, got {describe(given)} ({error})") from None


@dataclass(frozen=True, slots=True)
class Field(_FieldType):
    """A field element: ``0x`` and 1 to 64 hex digits, or decimal digits only.  Gives 32 bytes."""

    component: ClassVar[str] = "FrInput"

    name: str = "Fr"
    metavar: str = "FIELD"
    expects: str = "a field element as a string (0x and 1 to 64 hex digits, or decimal digits)"

    def from_json(self, value: object) -> bytes:
        if not isinstance(value, str):
            raise self.refuse(value)
        return self._read(value, value)

    def definition(self) -> Schema:
        return {
            "type": "string",
            "pattern": "^(0x[0-9a-fA-F]{1,64}|[0-9]+)$",
            "description": "A field element: 0x and 1 to 64 hex digits, or decimal digits.",
        }


_FULL_HASH: Final = re.compile(r"(?:0x)?([0-9a-fA-F]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FullHash(_FieldType):
    """A field element of which all 64 hex digits are written, ``0x`` optional.  Gives 32 bytes."""

    component: ClassVar[str] = "HashInput"

    name: str = field()
    expects: str = field()
    metavar: str = "HASH"

    def from_json(self, value: object) -> bytes:
        match = _FULL_HASH.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self.refuse(value)
        return self._read("0x" + match[1], value)

    def definition(self) -> Schema:
        return {"type": "string", "pattern": "^(0x)?[0-9a-fA-F]{64}$", "description": "All 64 hex digits."}


FIELD: Final = Field()
BLOCK_HASH: Final = Field(
    name="BlockHash", expects="a block hash as a string (0x and 1 to 64 hex digits, or decimal digits)"
)
TX_HASH: Final = FullHash("TxHash", "a transaction hash (0x and 64 hex digits)")
ADDRESS: Final = FullHash("AztecAddress", "an address (0x and 64 hex digits)", metavar="ADDRESS")
