"""Field elements and the readers of JSON scalars.

In memory a field element is its canonical 32-byte big-endian form: bytes compare, hash and slice
faster than integers, and most fields pass through the node without ever being computed with.

Readers take ``(record, key, path)`` and build the full path of a field only when they fail, so the
happy path costs no string formatting.  Every failure is a :class:`~fastnode.errors.DecodeError`
that starts with that path, such as ``checkpoint.blocks[2].header.totalFees``.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.errors import DecodeError
from fastnode.kernels import encode, field_runs

#: Order of the BN254 scalar field.
MODULUS: Final = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
FIELD_BYTES: Final = 32
MODULUS_BYTES: Final = MODULUS.to_bytes(FIELD_BYTES, "big")
ZERO_FIELD: Final = bytes(FIELD_BYTES)
ETH_ADDRESS_BYTES: Final = 20

#: One field in JSON: ``0x`` and 64 hex digits.
FIELD_TEXT_LENGTH: Final = 2 + 2 * FIELD_BYTES
ZERO_FIELD_TEXT: Final = "0x" + "00" * FIELD_BYTES

U32_BITS: Final = 32
U64_BITS: Final = 64
U128_BITS: Final = 128
FIELD_BITS: Final = 254

# ---- bytes and integers ---------------------------------------------------------------------


def field_from_int(value: int) -> bytes:
    """The field element ``value``; ValueError unless ``0 <= value < MODULUS``."""
    if not 0 <= value < MODULUS:
        raise ValueError(f"{value} is not a field element")
    return value.to_bytes(FIELD_BYTES, "big")


def int_from_field(field: bytes) -> int:
    return int.from_bytes(field, "big")


#: Position of the first of n joined fields that is not below the modulus, or None.
first_non_canonical: Final = field_runs.first_non_canonical


def split_fields(fields: bytes) -> tuple[bytes, ...]:
    """The single fields of n joined ones."""
    return tuple([fields[start : start + FIELD_BYTES] for start in range(0, len(fields), FIELD_BYTES)])


# ---- JSON out ---------------------------------------------------------------------------------


def hex_text(data: bytes) -> str:
    """``0x`` and lower-case hex."""
    return "0x" + data.hex()


def field_texts(fields: bytes) -> list[str]:
    """The JSON texts of n joined fields."""
    digits = fields.hex()
    step = 2 * FIELD_BYTES
    return ["0x" + digits[start : start + step] for start in range(0, len(digits), step)]


def integer_field_text(value: int) -> str:
    """An integer that the wire shows as a field: ``0x`` and 64 digits."""
    return f"0x{value:064x}"


# ---- JSON in: paths and containers ------------------------------------------------------------


def join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def element_path(path: str, key: str, index: int) -> str:
    return f"{join_path(path, key)}[{index}]"


def _fail(path: str, key: str, reason: str) -> DecodeError:
    return DecodeError(f"{join_path(path, key)}: {reason}")


def _type_name(value: object) -> str:
    names = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), type(value).__name__)


def as_record(value: object, path: str) -> dict[str, Any]:
    """``value`` as a JSON object."""
    if type(value) is not dict:
        raise DecodeError(f"{path or 'value'}: expected an object, got {_type_name(value)}")
    return value


def read_value(record: dict[str, Any], key: str, path: str) -> Any:
    """The value of a required key."""
    try:
        return record[key]
    except KeyError:
        raise _fail(path, key, "missing") from None


def read_record(record: dict[str, Any], key: str, path: str) -> dict[str, Any]:
    return as_record(read_value(record, key, path), join_path(path, key))


def read_list(record: dict[str, Any], key: str, path: str, *, maximum: int | None = None) -> list[Any]:
    value = read_value(record, key, path)
    if type(value) is not list:
        raise _fail(path, key, f"expected an array, got {_type_name(value)}")
    if maximum is not None and len(value) > maximum:
        raise _fail(path, key, f"has {len(value)} elements, at most {maximum} allowed")
    return value


# ---- JSON in: hex -----------------------------------------------------------------------------


def read_field(record: dict[str, Any], key: str, path: str) -> bytes:
    """A field element: ``0x`` and exactly 64 hex digits, below the modulus."""
    try:
        text = record[key]
        if len(text) == FIELD_TEXT_LENGTH and text.startswith("0x"):
            value = bytes.fromhex(text[2:])
            if value < MODULUS_BYTES and len(value) == FIELD_BYTES:
                return value
    except (KeyError, TypeError, AttributeError, ValueError):
        pass
    raise _hex_error(read_value(record, key, path), join_path(path, key), FIELD_BYTES)


def read_bytes(record: dict[str, Any], key: str, path: str, length: int) -> bytes:
    """Exactly ``length`` bytes in hex with ``0x``; no modulus applies."""
    text = read_value(record, key, path)
    try:
        if len(text) == 2 + 2 * length and text.startswith("0x"):
            value = bytes.fromhex(text[2:])
            if len(value) == length:
                return value
    except (TypeError, AttributeError, ValueError):
        pass
    raise _hex_error(text, join_path(path, key), length)


def read_field_integer(record: dict[str, Any], key: str, path: str, bits: int = FIELD_BITS) -> int:
    """A field that carries an integer of at most ``bits`` bits."""
    value = int.from_bytes(read_field(record, key, path), "big")
    if value >> bits:
        raise _fail(path, key, f"{value} does not fit {bits} bits")
    return value


def read_fields(record: dict[str, Any], key: str, path: str, *, maximum: int) -> bytes:
    """An array of at most ``maximum`` field elements, joined."""
    return fields_from_texts(read_list(record, key, path, maximum=maximum), join_path(path, key))


def fields_from_texts(texts: list[Any], path: str) -> bytes:
    """A list of field texts, joined into bytes.  One C-speed pass over the whole list."""
    count = len(texts)
    if not count:
        return b""
    try:
        joined = "".join(texts)
        if set(map(len, texts)) == {FIELD_TEXT_LENGTH}:
            fields = field_runs.fields_of_texts(joined.encode("ascii"), 0, count)
            if first_non_canonical(fields) is None:
                return fields
    except (TypeError, ValueError):
        pass
    for index, text in enumerate(texts):
        _check_field_text(text, f"{path}[{index}]")
    raise DecodeError(f"{path}: not an array of field elements")


def _check_field_text(text: object, path: str) -> None:
    if isinstance(text, str) and len(text) == FIELD_TEXT_LENGTH and text.startswith("0x"):
        try:
            value = bytes.fromhex(text[2:])
        except ValueError:
            value = b""
        if len(value) == FIELD_BYTES and value < MODULUS_BYTES:
            return
    raise _hex_error(text, path, FIELD_BYTES)


def _hex_error(text: object, path: str, length: int) -> DecodeError:
    if not isinstance(text, str):
        return DecodeError(f"{path}: expected a hex string, got {_type_name(text)}")
    if not text.startswith("0x") or len(text) != 2 + 2 * length:
        return DecodeError(f"{path}: expected 0x and {2 * length} hex digits, got {len(text)} characters")
    if not all(digit in "0123456789abcdefABCDEF" for digit in text[2:]):
        return DecodeError(f"{path}: not hexadecimal")
    return DecodeError(f"{path}: not below the field modulus")


# ---- JSON in: numbers and others ----------------------------------------------------------------


def read_number(record: dict[str, Any], key: str, path: str, *, bits: int = U32_BITS) -> int:
    """An unsigned JSON number of at most ``bits`` bits."""
    value = read_value(record, key, path)
    if type(value) is not int:
        raise _fail(path, key, f"expected an integer, got {_type_name(value)}")
    if value < 0:
        raise _fail(path, key, f"{value} is negative")
    if value >> bits:
        raise _fail(path, key, f"{value} does not fit {bits} bits")
    return value


def read_decimal(record: dict[str, Any], key: str, path: str, *, bits: int = U64_BITS, signed: bool = False) -> int:
    """An integer that the wire shows as a decimal string.

    ``bits`` counts the bits of the magnitude; ``signed`` allows a minus sign.
    """
    text = read_value(record, key, path)
    if type(text) is not str:
        raise _fail(path, key, f"expected a decimal string, got {_type_name(text)}")
    digits = text[1:] if signed and text.startswith("-") else text
    # isdigit alone would let other scripts' digits through, int() underscores and spaces.
    if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and digits != "0") or text == "-0":
        raise _fail(path, key, "not a decimal integer")
    # Every digit carries more than 3 bits: this bound keeps int() away from megabytes of digits.
    if len(digits) * 3 > bits + 3 or int(digits) >> bits:
        raise _fail(path, key, f"does not fit {bits} bits")
    return int(text)


def read_base64(record: dict[str, Any], key: str, path: str) -> bytes:
    text = read_value(record, key, path)
    if type(text) is not str:
        raise _fail(path, key, f"expected a base64 string, got {_type_name(text)}")
    try:
        return encode.from_base64(text)
    except ValueError as error:
        raise _fail(path, key, f"not base64: {error}") from None
