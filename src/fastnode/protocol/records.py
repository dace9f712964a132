"""Records of the protocol: the class is the table of its members, and everything else follows from it.

Each member is written once, with its codec and the words that explain it::

    @record
    class GasFees(Record):
        fee_per_da_gas: int = member(decimal(U128_BITS), "Price of one unit of DA gas.")

From that come, in the order of the members: JSON in both directions (its name there is its own in camel case, or
``json``), the binary form in both directions, the fields that are hashed, the type in the language of schemas, and so
schemas, the Python client and its comments.  A record whose JSON or binary form has another order says so in
``json_order`` or ``buffer_order``.

A member that only some releases have is ``optional``: None is neither written to JSON nor to the binary form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar, cast, dataclass_transform

from fastnode.errors import DecodeError
from fastnode.protocol.fields import (
    ETH_ADDRESS_BYTES,
    FIELD_BITS,
    FIELD_BYTES,
    U32_BITS,
    U64_BITS,
    as_record,
    element_path,
    field_texts,
    hex_text,
    integer_field_text,
    join_path,
    read_bytes,
    read_decimal,
    read_field,
    read_field_integer,
    read_fields,
    read_list,
    read_number,
    read_value,
    split_fields,
)
from fastnode.protocol.reader import ByteReader
from fastnode.records import dataclass

__all__ = [
    "ETH_ADDRESS",
    "FIELD",
    "Codec",
    "Member",
    "Record",
    "data",
    "decimal",
    "field_number",
    "hashes",
    "json_only",
    "many",
    "member",
    "number",
    "of",
    "optional",
    "padded",
    "record",
]

T = TypeVar("T")
R = TypeVar("R", bound="Record")

_ROW: Final = "row"
_NO_DEFAULT: Final[Any] = MISSING


# ---- codecs ----------------------------------------------------------------------------------------


class Codec(NamedTuple, Generic[T]):
    """One kind of value in each of its forms."""

    #: Type in the language of schemas (api/schema_language.py).
    type: str
    #: From a JSON object: ``read(object, key, path of the object)``.
    read: Callable[[dict[str, Any], str, str], T]
    #: To JSON.
    write: Callable[[T], Any]
    #: Appends the binary form, in parts of at most one field each where the record is hashed field by field.
    put: Callable[[T, list[bytes]], object]
    #: From the binary form; the text is the JSON name, for errors.
    take: Callable[[ByteReader, str], T]
    #: Bytes of each part of the binary form; none where they depend on the value.
    widths: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Bytes of the binary form, 0 where that depends on the value."""
        return sum(self.widths)


def _same(value: T) -> T:
    return value


def _append(value: bytes, parts: list[bytes]) -> None:
    parts.append(value)


def data(length: int, kind: str) -> Codec[bytes]:
    """``length`` bytes as hex; no modulus applies."""
    return Codec(
        kind,
        lambda record, key, path: read_bytes(record, key, path, length),
        hex_text,
        _append,
        lambda reader, name: reader.take(length),
        (length,),
    )


FIELD: Final = Codec("Fr", read_field, hex_text, _append, lambda reader, name: reader.field(), (FIELD_BYTES,))
ETH_ADDRESS: Final = data(ETH_ADDRESS_BYTES, "EthAddress")


def field_number(bits: int = FIELD_BITS, *, width: int = FIELD_BYTES) -> Codec[int]:
    """An integer that JSON shows as a field; binary in ``width`` bytes."""

    def take(reader: ByteReader, name: str) -> int:
        return int.from_bytes(reader.field() if width == FIELD_BYTES else reader.take(width), "big")

    return Codec(
        "Fr",
        lambda record, key, path: read_field_integer(record, key, path, bits),
        integer_field_text,
        lambda value, parts: parts.append(value.to_bytes(width, "big")),
        take,
        (width,),
    )


def number(bits: int = U32_BITS, *, width: int = 4, maximum: int | None = None) -> Codec[int]:
    """An integer that JSON shows as a number, at most ``maximum``; binary in ``width`` bytes."""
    highest = (1 << bits) - 1 if maximum is None else maximum

    def read(record: dict[str, Any], key: str, path: str) -> int:
        value = read_number(record, key, path, bits=bits)
        if value > highest:
            raise DecodeError(f"{join_path(path, key)}: {value} is above {highest}")
        return value

    return Codec(
        "number",
        read,
        _same,
        lambda value, parts: parts.append(value.to_bytes(width, "big")),
        lambda reader, name: reader.number(width, highest, name),
        (width,),
    )


def decimal(bits: int = U64_BITS, *, signed: bool = False) -> Codec[int]:
    """An integer of at most ``bits`` bits that JSON shows as decimal text; binary in as many bytes as it may need."""
    width = (bits + signed + 7) // 8
    return Codec(
        "bigint",
        lambda record, key, path: read_decimal(record, key, path, bits=bits, signed=signed),
        str,
        lambda value, parts: parts.append(value.to_bytes(width, "big", signed=signed)),
        lambda reader, name: int.from_bytes(reader.take(width), "big", signed=signed),
        (width,),
    )


def padded(count: int) -> Codec[tuple[bytes, ...]]:
    """Exactly ``count`` fields."""

    def read(record: dict[str, Any], key: str, path: str) -> tuple[bytes, ...]:
        found = split_fields(read_fields(record, key, path, maximum=count))
        if len(found) != count:
            raise DecodeError(f"{join_path(path, key)}: has {len(found)} elements, expected {count}")
        return found

    return Codec(
        "Fr[]",
        read,
        lambda value: field_texts(b"".join(value)),
        lambda value, parts: parts.extend(value),
        lambda reader, name: split_fields(reader.fields(count)),
        (FIELD_BYTES,) * count,
    )


def hashes(maximum: int, *, count_width: int = 1) -> Codec[tuple[bytes, ...]]:
    """At most ``maximum`` fields; binary behind their count."""

    def put(value: tuple[bytes, ...], parts: list[bytes]) -> None:
        parts.append(len(value).to_bytes(count_width, "big"))
        parts += value

    return Codec(
        "Fr[]",
        lambda record, key, path: split_fields(read_fields(record, key, path, maximum=maximum)),
        lambda value: field_texts(b"".join(value)),
        put,
        lambda reader, name: split_fields(reader.fields(reader.count(count_width, maximum, name))),
    )


def json_only(kind: str, read: Callable[[dict[str, Any], str, str], T], write: Callable[[T], Any]) -> Codec[T]:
    """A value of records that have no binary form."""

    def put(value: T, parts: list[bytes]) -> None:
        raise NotImplementedError

    def take(reader: ByteReader, name: str) -> T:
        raise NotImplementedError

    return Codec(kind, read, write, put, take)


def of(kind: type[R]) -> Codec[R]:
    """A record in a record."""
    return Codec(
        kind.schema_name(),
        lambda record, key, path: kind.from_json(read_value(record, key, path), join_path(path, key)),
        kind.to_json,
        kind.put,
        lambda reader, name: kind.read(reader),
        kind.widths(),
    )


def many(kind: type[R], maximum: int, *, count_width: int = 1) -> Codec[tuple[R, ...]]:
    """At most ``maximum`` records; binary behind their count."""
    from_json = kind.from_json

    def read(record: dict[str, Any], key: str, path: str) -> tuple[R, ...]:
        items = read_list(record, key, path, maximum=maximum)
        return tuple([from_json(item, element_path(path, key, index)) for index, item in enumerate(items)])

    def put(value: tuple[R, ...], parts: list[bytes]) -> None:
        parts.append(len(value).to_bytes(count_width, "big"))
        for item in value:
            item.put(parts)

    return Codec(
        f"{kind.schema_name()}[]",
        read,
        lambda value: [item.to_json() for item in value],
        put,
        lambda reader, name: tuple([kind.read(reader) for _ in range(reader.count(count_width, maximum, name))]),
    )


# ---- members ---------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A row of a record's table."""

    codec: Codec[Any]
    doc: str = ""
    json: str = ""
    is_optional: bool = False
    name: str = ""

    @property
    def type_text(self) -> str:
        """The member of an object in the language of schemas."""
        return f"{self.json}{'?' if self.is_optional else ''}: {self.codec.type}"


def member(codec: Codec[T], doc: str = "", *, json: str = "", default: T = _NO_DEFAULT) -> T:
    """A member of a record.

    ``json``: its name in JSON where that is not its own in camel case; ``default``: for who makes one, not for who
    reads one.
    """
    made: T = field(default=default, metadata={_ROW: Member(codec, doc, json)})
    return made


def optional(
    codec: Codec[T],
    doc: str = "",
    *,
    default: None,
    read: Callable[[dict[str, Any], str, str], T | None] | None = None,
    size_tells: bool = False,
) -> T | None:
    """A member that is None where a release does not have it; such members are declared last.

    ``read``: reads it where more than its key tells whether it is there.  ``size_tells``: the member stands inside the
    binary form (``buffer_order``), so that only the size of a whole buffer (``from_buffer``) tells whether it is
    there; without it the member ends the binary form.
    """

    def read_if_there(record: dict[str, Any], key: str, path: str) -> T | None:
        return codec.read(record, key, path) if key in record else None

    def put(value: T | None, parts: list[bytes]) -> None:
        if value is not None:
            codec.put(value, parts)

    def take(reader: ByteReader, name: str) -> T | None:
        is_missing = not reader.has_optional if size_tells else reader.is_at_end
        return None if is_missing else codec.take(reader, name)

    write = cast("Callable[[T | None], Any]", codec.write)
    made = Codec(codec.type, read or read_if_there, write, put, take, codec.widths)
    return cast("T | None", field(default=default, metadata={_ROW: Member(made, doc, is_optional=True)}))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


# ---- records ---------------------------------------------------------------------------------------


class Record:
    """A class that is a table; :func:`record` makes its dataclass."""

    __slots__ = ()

    MEMBERS: ClassVar[tuple[Member, ...]]
    #: The same in the order of the JSON.
    IN_JSON: ClassVar[tuple[Member, ...]]
    #: Name in schemas, where that is not the name of the class.
    known_as: ClassVar[str] = ""
    #: Names of the members in the order of the JSON, where that is not the order of the class.
    json_order: ClassVar[tuple[str, ...]] = ()
    #: Names of the members in the order of the binary form, where that is not the order of the class.
    buffer_order: ClassVar[tuple[str, ...]] = ()

    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    _readers: ClassVar[tuple[tuple[Callable[..., Any], str], ...]]
    _writers: ClassVar[tuple[tuple[str, Callable[[Any], Any]], ...]]
    _putters: ClassVar[tuple[Callable[[Any, list[bytes]], object], ...]]
    _takers: ClassVar[tuple[tuple[Callable[[ByteReader, str], Any], str], ...]]
    _in_class_order: ClassVar[Callable[[Any], tuple[Any, ...]] | None] = None
    _buffer_values: ClassVar[Callable[[Any], tuple[Any, ...]]]

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """DecodeError begins with the path of the member that is wrong."""
        found = as_record(value, path)
        return cls(*[read(found, key, path) for read, key in cls._readers])

    def to_json(self) -> dict[str, Any]:
        cls = type(self)
        return {
            key: write(value)
            for (key, write), value in zip(cls._writers, cls._values(self), strict=True)
            if value is not None
        }

    def put(self, parts: list[bytes]) -> None:
        """Append the parts of the binary form."""
        cls = type(self)
        for put, value in zip(cls._putters, cls._buffer_values(self), strict=True):
            put(value, parts)

    def to_buffer(self) -> bytes:
        parts: list[bytes] = []
        self.put(parts)
        return b"".join(parts)

    def to_fields(self) -> bytes:
        """The parts of the binary form as one field each, joined: what is hashed of a record of scalars."""
        parts: list[bytes] = []
        self.put(parts)
        return b"".join([part.rjust(FIELD_BYTES, b"\0") for part in parts])

    @classmethod
    def read(cls, reader: ByteReader) -> Self:
        """Read one record and leave the reader behind it."""
        values = [take(reader, key) for take, key in cls._takers]
        return cls(*(values if cls._in_class_order is None else cls._in_class_order(values)))

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """The inverse of :meth:`to_buffer`; DecodeError for anything else."""
        what, sizes = cls.title(), cls.sizes()
        if sizes and len(buffer) not in sizes:
            raise DecodeError(f"{what}: {len(buffer)} bytes, expected {' or '.join(map(str, sizes))}")
        reader = ByteReader(buffer, what, has_optional=len(sizes) > 1 and len(buffer) > sizes[0])
        found = cls.read(reader)
        reader.finish()
        return found

    @classmethod
    def widths(cls) -> tuple[int, ...]:
        """Bytes of each part of the binary form without optional members; none where they depend on the values."""
        each = [one.codec.widths for one in cls.MEMBERS if not one.is_optional]
        return tuple(chain(*each)) if all(each) else ()

    @classmethod
    def sizes(cls) -> list[int]:
        """Bytes of the binary form, then with each optional member more; none where that depends on the values."""
        more = [one.codec.width for one in cls.MEMBERS if one.is_optional]
        return list(accumulate(more, initial=sum(cls.widths()))) if cls.widths() else []

    @classmethod
    def title(cls) -> str:
        """The record in words, for errors: ``block header``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", cls.__name__).lower()

    @classmethod
    def schema_name(cls) -> str:
        return cls.known_as or cls.__name__

    @classmethod
    def docs(cls) -> dict[str, str]:
        """The words about members by their names in JSON."""
        return {row.json: row.doc for row in cls.MEMBERS if row.doc}

    @classmethod
    def type_text(cls) -> str:
        """The record in the language of schemas."""
        return f"{{{', '.join([row.type_text for row in cls.IN_JSON])}}}"


@dataclass_transform(frozen_default=True, field_specifiers=(member, optional))
def record(cls: type[R]) -> type[R]:
    """A frozen dataclass with slots, whose table is its members."""
    made = dataclass(frozen=True, slots=True)(cls)
    rows = [
        each.metadata[_ROW]._replace(name=each.name, json=each.metadata[_ROW].json or _camel(each.name))
        for each in fields(made)  # type: ignore[arg-type]
    ]
    made.MEMBERS = tuple(rows)
    by_name = {each.name: each for each in rows}
    in_buffer = tuple(by_name[name] for name in made.buffer_order) or made.MEMBERS
    made._readers = tuple((each.codec.read, each.json) for each in rows)
    made.IN_JSON = tuple(by_name[name] for name in made.json_order) or made.MEMBERS
    made._writers = tuple((each.json, each.codec.write) for each in made.IN_JSON)
    made._putters = tuple(each.codec.put for each in in_buffer)
    made._takers = tuple((each.codec.take, each.json) for each in in_buffer)
    if in_buffer != made.MEMBERS:
        made._in_class_order = staticmethod(itemgetter(*map(in_buffer.index, rows)))
    made._values = staticmethod(_getter(made.IN_JSON))
    made._buffer_values = staticmethod(_getter(in_buffer))
    return made


def _getter(rows: tuple[Member, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of these members as a tuple."""
    get = attrgetter(*[each.name for each in rows])
    return get if len(rows) > 1 else lambda value: (get(value),)
