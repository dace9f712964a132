"""Public calls that a transaction may make before its fee is secured: entries, and those of the operator.

Grammar of the setting (the network's own, so that an operator can keep the value):

    list    entry , entry , ...            blanks around entries and empty entries are ignored
    entry   I : address : selector [ : flags ]      a contract by its address
            C : class id : selector [ : flags ]     every contract of a class
    flags   flag + flag + ...
            os      only the contract itself may call
            rn      refused when the sender is hidden
            cl=N    exactly N fields of calldata, the selector included
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import BOOLEAN
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject
from fastnode.values.schemas import Schema, object_of, reference
from fastnode.values.texts import HexText
from fastnode.values.value_type import ValueType, definitions_of, read_member

__all__ = ["ALLOWED_ELEMENT", "ALLOW_LIST", "AllowedElement", "parse_allow_list"]

SELECTOR_BYTES: Final = 4
FIELD_BYTES: Final = 32
ELEMENTS_MAX: Final = 1000

_INSTANCE: Final = "I"
_CLASS: Final = "C"
_ONLY_SELF: Final = "os"
_REJECT_NULL: Final = "rn"
_CALLDATA_LENGTH: Final = "cl="
_LENGTH_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedElement:
    """One allowed function, of the contract at ``address`` or of all contracts of ``class_id``; the other is None."""

    address: bytes | None = None
    class_id: bytes | None = None
    selector: bytes  # 4 bytes
    calldata_length: int | None = None  # fields, the selector included; None: any
    only_self: bool = False
    reject_null_msg_sender: bool = False

    def to_json(self) -> dict[str, Any]:
        """AllowedElement of the wire: what is not set is absent."""
        record: dict[str, Any] = {}
        if self.address is not None:
            record["address"] = _hex(self.address)
        if self.class_id is not None:
            record["classId"] = _hex(self.class_id)
        record["selector"] = _hex(self.selector)
        if self.calldata_length is not None:
            record["calldataLength"] = self.calldata_length
        if self.only_self:
            record["onlySelf"] = True
        if self.reject_null_msg_sender:
            record["rejectNullMsgSender"] = True
        return record

    def to_text(self) -> str:
        """The entry of the setting."""
        kind, owner = (_CLASS, self.class_id) if self.address is None else (_INSTANCE, self.address)
        flags = [_ONLY_SELF] if self.only_self else []
        if self.reject_null_msg_sender:
            flags.append(_REJECT_NULL)
        if self.calldata_length is not None:
            flags.append(f"{_CALLDATA_LENGTH}{self.calldata_length}")
        assert owner is not None
        parts = (kind, _hex(owner), _hex(self.selector), *(["+".join(flags)] if flags else []))
        return ":".join(parts)


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def parse_allow_list(text: str) -> tuple[AllowedElement, ...]:
    """The operator's entries, which follow the defaults; Reject names the entry that is wrong."""
    return tuple(_parse_entry(entry) for part in text.split(",") if (entry := part.strip()))


def _parse_entry(entry: str) -> AllowedElement:
    kind, _, rest = entry.partition(":")
    identifier, _, rest = rest.partition(":")
    selector_text, _, flags_text = rest.partition(":")
    if not selector_text:
        reason = "selector is required. Expected format: I:address:selector or C:classId:selector"
        raise _wrong(entry, reason)
    selector = _parse_selector(entry, selector_text)
    flags = _parse_flags(entry, flags_text)
    if kind not in (_INSTANCE, _CLASS):
        raise _wrong(entry, f'unknown type "{kind}". Expected "I" (instance) or "C" (class).')
    owner = _parse_identifier(entry, identifier)
    if kind == _INSTANCE:
        return AllowedElement(address=owner, selector=selector, **flags)
    return AllowedElement(class_id=owner, selector=selector, **flags)


def _wrong(entry: str, reason: str) -> Reject:
    return Reject(f'Invalid allow list entry "{entry}": {reason}', is_specific=True)


def _parse_selector(entry: str, text: str) -> bytes:
    try:
        return _read_bytes(text, SELECTOR_BYTES)
    except ValueError:
        raise _wrong(entry, f'invalid selector "{text}". Expected 0x and 8 hex digits.') from None


def _parse_identifier(entry: str, text: str) -> bytes:
    try:
        return _read_bytes(text, FIELD_BYTES)
    except ValueError:
        reason = f'invalid address or class id "{text}". Expected 0x and 64 hex digits, below the field modulus.'
        raise _wrong(entry, reason) from None


def _read_bytes(text: str, size: int) -> bytes:
    """So many bytes of hex; those of a field element are below the modulus.  ValueError otherwise."""
    # The kernels take a while to load, and few nodes have an allow list of their own.
    from fastnode.kernels import encode

    digits = encode.from_hex(text)
    if len(digits) != size:
        raise ValueError
    return encode.field_from_text("0x" + digits.hex()) if size == FIELD_BYTES else digits


def _parse_flags(entry: str, text: str) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for flag in text.split("+") if text else ():
        if flag == _ONLY_SELF:
            flags["only_self"] = True
        elif flag == _REJECT_NULL:
            flags["reject_null_msg_sender"] = True
        elif flag.startswith(_CALLDATA_LENGTH):
            flags["calldata_length"] = _parse_length(entry, flag)
        else:
            raise _wrong(entry, f'unknown flag "{flag}". Supported flags: os, rn, cl=N.')
    return flags


def _parse_length(entry: str, flag: str) -> int:
    digits = flag.removeprefix(_CALLDATA_LENGTH)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LENGTH_DIGITS_MAX):
        raise _wrong(entry, f'invalid calldataLength in flag "{flag}". Expected a non-negative integer.')
    return int(digits)


# ---- types --------------------------------------------------------------------------------------


class AllowedElementType(ValueType):
    """AllowedElement of the wire; as text an entry of the setting."""

    __slots__ = ()

    name = "AllowedElement"
    metavar = "ENTRY"
    expects = "{address or classId, selector, calldataLength?, onlySelf?, rejectNullMsgSender?}"

    def from_text(self, text: str) -> AllowedElement:
        return _parse_entry(text)

    def from_json(self, value: object) -> AllowedElement:
        kinds = _member_types()
        if not isinstance(value, dict) or ("address" in value) == ("classId" in value):
            raise self.refuse(value)
        if not value.keys() <= kinds.keys() or "selector" not in value:
            raise self.refuse(value)
        members = {key: read_member(kinds[key], item, key) for key, item in value.items()}
        return AllowedElement(
            address=members.get("address"),
            class_id=members.get("classId"),
            selector=bytes.fromhex(members["selector"][2:]),
            calldata_length=members.get("calldataLength"),
            only_self=members.get("onlySelf", False),
            reject_null_msg_sender=members.get("rejectNullMsgSender", False),
        )

    def to_text(self, value: Any) -> str:
        return value.to_text()  # type: ignore[no-any-return]

    def to_json(self, value: Any) -> dict[str, Any]:
        return value.to_json()  # type: ignore[no-any-return]

    def schema(self) -> Schema:
        members = {key: kind.schema() for key, kind in _member_types().items()}
        owners = ("address", "classId")
        shared = {key: schema for key, schema in members.items() if key not in owners}
        each = [object_of({owner: members[owner]} | shared, (owner, "selector"), closed=True) for owner in owners]
        return {"anyOf": each}

    def schema_shown(self) -> Schema:
        return reference(self.name)

    def definitions(self) -> Mapping[str, Schema]:
        return definitions_of(_member_types().values())


@cache
def _member_types() -> Mapping[str, ValueType]:
    from fastnode.values.field_elements import FullHash

    owner = FullHash("Fr", "a field element (0x and 64 hex digits)")
    return {
        "address": owner,
        "classId": owner,
        "selector": HexText(SELECTOR_BYTES),
        "calldataLength": Integer(minimum=0),
        "onlySelf": BOOLEAN,
        "rejectNullMsgSender": BOOLEAN,
    }


@dataclass(frozen=True, slots=True)
class AllowListType(ArrayOf):
    """A list of :class:`AllowedElement`; as text empty entries are passed over."""

    metavar: str = "LIST"

    def from_text(self, text: str) -> tuple[AllowedElement, ...]:
        return parse_allow_list(text)


ALLOWED_ELEMENT: Final = AllowedElementType()
ALLOW_LIST: Final = AllowListType(
    ALLOWED_ELEMENT,
    ELEMENTS_MAX,
    meaning="I:address:selector or C:classId:selector, each with :flags if wanted, separated by commas",
)
