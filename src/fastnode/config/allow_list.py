"""Which public calls a transaction may make before its fee is secured: the defaults and the operator's entries.

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

from typing import Any, Final

from fastnode.errors import SettingError
from fastnode.kernels import encode
from fastnode.protocol.constants import AUTH_REGISTRY_ADDRESS, FEE_JUICE_ADDRESS
from fastnode.protocol.fields import FIELD_BYTES, field_from_int, hex_text
from fastnode.records import dataclass

__all__ = ["DEFAULT_ALLOW_LIST", "AllowedElement", "allowed_element_from_json", "parse_allow_list"]

SELECTOR_BYTES: Final = 4

_INSTANCE: Final = "I"
_CLASS: Final = "C"
_ONLY_SELF: Final = "os"
_REJECT_NULL: Final = "rn"
_CALLDATA_LENGTH: Final = "cl="
_LENGTH_DIGITS_MAX: Final = 9
_JSON_KEYS: Final = frozenset({"address", "classId", "selector", "calldataLength", "onlySelf", "rejectNullMsgSender"})


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
            record["address"] = hex_text(self.address)
        if self.class_id is not None:
            record["classId"] = hex_text(self.class_id)
        record["selector"] = hex_text(self.selector)
        if self.calldata_length is not None:
            record["calldataLength"] = self.calldata_length
        if self.only_self:
            record["onlySelf"] = True
        if self.reject_null_msg_sender:
            record["rejectNullMsgSender"] = True
        return record


def allowed_element_from_json(record: object) -> AllowedElement:
    """The inverse of :meth:`AllowedElement.to_json`; ValueError, without a message, for anything else."""
    if (
        not isinstance(record, dict)
        or not record.keys() <= _JSON_KEYS
        or ("address" in record) == ("classId" in record)
    ):
        raise ValueError
    selector = _bytes_from_json(record.get("selector"), SELECTOR_BYTES)
    length = record.get("calldataLength")
    flags = record.get("onlySelf", False), record.get("rejectNullMsgSender", False)
    if not (length is None or (type(length) is int and length >= 0)) or not all(
        isinstance(flag, bool) for flag in flags
    ):
        raise ValueError
    owners = [_bytes_from_json(record[key], FIELD_BYTES) if key in record else None for key in ("address", "classId")]
    return AllowedElement(
        address=owners[0],
        class_id=owners[1],
        selector=selector,
        calldata_length=length,
        only_self=flags[0],
        reject_null_msg_sender=flags[1],
    )


def _bytes_from_json(value: object, size: int) -> bytes:
    if not isinstance(value, str):
        raise ValueError
    digits = encode.from_hex(value)
    if len(digits) != size:
        raise ValueError
    return encode.field_from_text("0x" + digits.hex()) if size == FIELD_BYTES else digits


#: What every node of release 4.1.2 allows: authorizing a call (private and public form), and a fee payment
#: out of a private balance.
DEFAULT_ALLOW_LIST: Final = (
    AllowedElement(
        address=field_from_int(AUTH_REGISTRY_ADDRESS),
        selector=bytes.fromhex("61966b7c"),  # _set_authorized((Field),Field,bool)
        calldata_length=4,
        only_self=True,
        reject_null_msg_sender=True,
    ),
    AllowedElement(
        address=field_from_int(AUTH_REGISTRY_ADDRESS),
        selector=bytes.fromhex("b839de91"),  # set_authorized(Field,bool)
        calldata_length=3,
        reject_null_msg_sender=True,
    ),
    AllowedElement(
        address=field_from_int(FEE_JUICE_ADDRESS),
        selector=bytes.fromhex("e7f045ff"),  # _increase_public_balance((Field),u128)
        calldata_length=3,
        only_self=True,
    ),
)


def parse_allow_list(text: str) -> tuple[AllowedElement, ...]:
    """The operator's entries, which follow the defaults; SettingError names the entry that is wrong."""
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


def _wrong(entry: str, reason: str) -> SettingError:
    return SettingError(f'Invalid allow list entry "{entry}": {reason}')


def _parse_selector(entry: str, text: str) -> bytes:
    try:
        selector = encode.from_hex(text)
    except ValueError:
        selector = b""
    if len(selector) != SELECTOR_BYTES:
        raise _wrong(entry, f'invalid selector "{text}". Expected 0x and 8 hex digits.')
    return selector


def _parse_identifier(entry: str, text: str) -> bytes:
    try:
        digits = encode.from_hex(text)
        if len(digits) != FIELD_BYTES:
            raise ValueError
        return encode.field_from_text("0x" + digits.hex())
    except ValueError:
        reason = f'invalid address or class id "{text}". Expected 0x and 64 hex digits, below the field modulus.'
        raise _wrong(entry, reason) from None


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
