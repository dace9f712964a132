"""Artifacts of compiled contracts: names and types of what a class of contracts has, as far as its id vouches for them.

A class id commits to the artifact that the compiler made::

    class id       H(CONTRACT_CLASS_ID, artifact hash, private functions root, bytecode commitment)   contracts.py
    artifact hash  S(1 | root of private functions | root of utility functions | S(name and outputs as sorted JSON))
    function leaf  S(1 | selector 4 | S(return types as sorted JSON) | S(bytecode)), by rising selector
    root           pairs hashed with S, missing leaves are zero; zero without functions
    S              SHA-256 as a number modulo the field's

``outputs`` has the parameters of private and public functions, the events and the layout of storage, so all of these
are as the compiler wrote them.  The texts of assertions are not hashed: they are what the giver of the artifact says.

What is kept of an artifact is its compact form: hashes stand in the place of bytecode and keys, so that an id can be
computed from it again.  The JSON comes from strangers: every part has a limit, which is looked at before it is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias

import orjson

from fastnode.errors import DecodeError
from fastnode.kernels import encode, poseidon2
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.protocol.contracts import (
    PUBLIC_BYTECODE_BYTES_MAX,
    contract_class_id,
    private_functions_root,
    public_bytecode_commitment,
)
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, ZERO_FIELD, hex_text
from fastnode.records import dataclass

__all__ = [
    "COMPACT_BYTES_MAX",
    "AbiType",
    "Artifact",
    "EventAbi",
    "FunctionAbi",
    "Member",
    "compact_artifact",
    "decode_fields",
    "read_compact",
    "selector_of",
    "type_text",
]

#: Compact JSON; the largest contract of the release's packages takes 50 kB.
COMPACT_BYTES_MAX: Final = 512 << 10
FUNCTIONS_MAX: Final = 512
EVENTS_MAX: Final = 256
SLOTS_MAX: Final = 1024
ERRORS_MAX: Final = 2000
ERROR_LENGTH_MAX: Final = 400
NAME_LENGTH_MAX: Final = 200
DEPTH_MAX: Final = 32
VALUES_MAX: Final = 50_000
#: Functions with a private or utility body, as the release's tree of private functions has leaves.
_LEAVES_MAX: Final = 128
_BYTECODE_TEXT_MAX: Final = 4 << 20
_KEY_TEXT_MAX: Final = 64 << 10
#: Characters of base64 that are decoded at a time, a multiple of four.
_PIECE: Final = 64 << 10
_SELECTOR_BYTES: Final = 4
_BYTES_PER_FIELD: Final = 31
_SLOT: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{1,64}", re.ASCII)
#: Values in a decoded result; the rest is left out.
DECODED_VALUES_MAX: Final = 500

#: As the compiler writes it: ``{"kind": "struct", "path", "fields": [..]}`` and so on.
AbiType: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter of a function or a field of an event."""

    name: str
    type: AbiType


@dataclass(frozen=True, slots=True)
class FunctionAbi:
    name: str
    parameters: tuple[Member, ...]
    return_type: AbiType | None = None


@dataclass(frozen=True, slots=True)
class EventAbi:
    name: str
    fields: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Names of one class of contracts.  ``errors`` are not vouched for by the class id."""

    class_id: bytes
    artifact_hash: bytes
    private_functions_root: bytes
    bytecode_commitment: bytes
    name: str
    #: Private and public functions by selector.
    functions: dict[bytes, FunctionAbi] = field(default_factory=dict)
    #: By selector.
    events: dict[int, EventAbi] = field(default_factory=dict)
    #: Slots of its storage by name; a map has its entries elsewhere.
    storage: dict[str, int] = field(default_factory=dict)
    #: Texts of assertions by the number that revert data begin with.
    errors: dict[int, str] = field(default_factory=dict)


# ---- from what the compiler wrote -----------------------------------------------------------------------


def compact_artifact(record: object) -> dict[str, Any]:
    """The compact form of an artifact as the compiler writes it, or as the release's packages keep it; one that is
    compact already is left as it is.  DecodeError names the part that is wrong."""
    artifact = _object(record, "the artifact")
    if "publicBytecodeCommitment" in artifact:
        return artifact
    name = _name(artifact.get("name"), "name")
    if artifact.get("transpiled") is False:
        raise DecodeError("the artifact is not transpiled: its public bytecode is not that of the network")
    outputs = _object(artifact.get("outputs"), "outputs")
    structs = outputs.get("structs")
    described = structs.get("functions") if isinstance(structs, dict) else None
    bytecode: str | None = None
    functions: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    for place, item in enumerate(_list(artifact.get("functions"), "functions", FUNCTIONS_MAX)):
        path = f"functions[{place}]"
        function = _object(item, path)
        kind, own_name = _kind_of(function, path), _name(function.get("name"), f"{path}.name")
        errors |= _errors_of(function)
        if kind == "public":
            if own_name == "public_dispatch":
                bytecode = _text(function.get("bytecode"), f"{path}.bytecode", _BYTECODE_TEXT_MAX)
            continue
        functions.append(_compact_function(function, kind, own_name, name, described, path))
    for item in _list(artifact.get("nonDispatchPublicFunctions", []), "nonDispatchPublicFunctions", FUNCTIONS_MAX):
        errors |= _errors_of(_object(item, "nonDispatchPublicFunctions[]"))
    public = b"" if bytecode is None else _base64(bytecode, "bytecode of public_dispatch")
    if len(public) > PUBLIC_BYTECODE_BYTES_MAX:
        raise DecodeError(
            f"the public bytecode has {len(public)} bytes, at most {PUBLIC_BYTECODE_BYTES_MAX} are allowed"
        )
    return {
        "name": name,
        "outputs": outputs,
        "functions": functions,
        "publicBytecodeCommitment": hex_text(public_bytecode_commitment(public)),
        "errors": errors,
    }


def _kind_of(function: dict[str, Any], path: str) -> str:
    kind = function.get("functionType")
    if kind in ("private", "public", "utility"):
        return str(kind)
    attributes = function.get("custom_attributes")
    if isinstance(attributes, list):
        for attribute, found in (("abi_private", "private"), ("abi_public", "public"), ("abi_utility", "utility")):
            if attribute in attributes:
                return found
    raise DecodeError(f"{path}: it is neither private nor public nor a utility")


def _compact_function(
    function: dict[str, Any], kind: str, name: str, contract: str, described: object, path: str
) -> dict[str, Any]:
    bytecode = _base64(_text(function.get("bytecode"), f"{path}.bytecode", _BYTECODE_TEXT_MAX), f"{path}.bytecode")
    compact: dict[str, Any] = {
        "name": name,
        "type": kind,
        "selector": hex_text(selector_of(name, _parameters_of(function, path))),
        "returnTypes": _return_types_of(function, kind, f"{contract}::{name}_abi", described, path),
        "bytecodeHash": hex_text(_hash(bytecode)),
    }
    if kind == "private":
        text = function.get("verification_key", function.get("verificationKey"))
        key = _base64(_text(text, f"{path}.verification_key", _KEY_TEXT_MAX), f"{path}.verification_key")
        compact["vkHash"] = hex_text(_key_hash(key, path))
    return compact


def _parameters_of(function: dict[str, Any], path: str) -> tuple[Member, ...]:
    abi = function.get("abi")
    items = function.get("parameters") if abi is None else _object(abi, f"{path}.abi").get("parameters")
    found = _members(items, f"{path}.parameters")
    first = found[0].type if found else {}
    if abi is not None and first.get("kind") == "struct" and "ContextInputs" in str(first.get("path")):
        return found[1:]  # inserted by the compiler
    return found


def _return_types_of(
    function: dict[str, Any], kind: str, struct_path: str, described: object, path: str
) -> list[AbiType]:
    if isinstance(given := function.get("returnTypes"), list):
        return [_object(item, f"{path}.returnTypes") for item in given]
    if kind == "utility":
        returned = _object(function.get("abi"), f"{path}.abi").get("return_type")
        return [] if returned is None else [_object(_object(returned, path).get("abi_type"), path)]
    for struct in described if isinstance(described, list) else ():
        if isinstance(struct, dict) and struct.get("path") == struct_path:
            types = _struct_members(struct, path)
            return [member.type for member in types if member.name == "return_type"]
    return []


def _errors_of(function: dict[str, Any]) -> dict[str, str]:
    """Texts of assertions by number, as decimal text; what has no text is left out."""
    abi = function.get("abi")
    types = function.get("errorTypes") if not isinstance(abi, dict) else abi.get("error_types")
    if not isinstance(types, dict):
        return {}
    return {
        key: error["string"][:ERROR_LENGTH_MAX]
        for key, error in list(types.items())[:ERRORS_MAX]
        if isinstance(error, dict) and isinstance(error.get("string"), str)
    }


# ---- the compact form -----------------------------------------------------------------------------------


def read_compact(record: object) -> Artifact:
    """The names of a compact artifact, and the class id that follows from it.  DecodeError names what is wrong."""
    artifact = _object(record, "the artifact")
    _check_size(artifact)
    name = _name(artifact.get("name"), "name")
    outputs = _object(artifact.get("outputs"), "outputs")
    private: list[tuple[int, bytes]] = []
    leaves: dict[str, list[tuple[bytes, bytes]]] = {"private": [], "utility": []}
    for place, item in enumerate(_list(artifact.get("functions"), "functions", FUNCTIONS_MAX)):
        path = f"functions[{place}]"
        function = _object(item, path)
        kind = function.get("type")
        if kind not in ("private", "utility"):
            raise DecodeError(f"{path}.type: private or utility expected")
        selector = _hex(function.get("selector"), f"{path}.selector", _SELECTOR_BYTES)
        returned = _hash(_sorted_json(_list(function.get("returnTypes"), f"{path}.returnTypes", FUNCTIONS_MAX)))
        bytecode = _hex(function.get("bytecodeHash"), f"{path}.bytecodeHash", FIELD_BYTES)
        leaves[kind].append((selector, _hash(b"\1" + selector + returned + bytecode)))
        if kind == "private":
            vk_hash = _field(function.get("vkHash"), f"{path}.vkHash")
            private.append((int.from_bytes(selector, "big"), vk_hash))
    if len(private) > _LEAVES_MAX or len(leaves["utility"]) > _LEAVES_MAX:
        raise DecodeError(f"more than {_LEAVES_MAX} private or utility functions")
    metadata = _hash(_sorted_json({"name": name, "outputs": _ordered(outputs)}))
    artifact_hash = _hash(b"\1" + _root(leaves["private"]) + _root(leaves["utility"]) + metadata)
    commitment = _field(artifact.get("publicBytecodeCommitment"), "publicBytecodeCommitment")
    root = private_functions_root(private)
    return Artifact(
        class_id=contract_class_id(artifact_hash, root, commitment),
        artifact_hash=artifact_hash,
        private_functions_root=root,
        bytecode_commitment=commitment,
        name=name,
        functions=dict(_functions(outputs, name)),
        events=dict(_events(outputs)),
        storage=dict(_storage(outputs, name)),
        errors=_errors(artifact.get("errors", {})),
    )


def _ordered(outputs: dict[str, Any]) -> dict[str, Any]:
    """Outputs as they are hashed: events and functions by falling path."""
    structs = dict(_object(outputs.get("structs", {}), "outputs.structs"))
    for key in ("events", "functions"):
        if key in structs:
            found = _structs(outputs, key, FUNCTIONS_MAX)
            structs[key] = sorted(found, key=lambda struct: str(struct.get("path")), reverse=True)
    return outputs | {"structs": structs}


def _functions(outputs: dict[str, Any], contract: str) -> Iterator[tuple[bytes, FunctionAbi]]:
    prefix, suffix = f"{contract}::", "_abi"
    for struct in _structs(outputs, "functions", FUNCTIONS_MAX):
        path = str(struct.get("path"))
        if not path.startswith(prefix) or not path.endswith(suffix):
            continue
        name = _name(path[len(prefix) : -len(suffix)], "the name of a function")
        parameters: tuple[Member, ...] = ()
        returned: AbiType | None = None
        for member in _struct_members(struct, path):
            if member.name == "parameters":
                # The compiler puts an underscore in front of each name.
                members = _struct_members(member.type, path)
                parameters = tuple(Member(each.name.removeprefix("_") or "_", each.type) for each in members)
            elif member.name == "return_type":
                returned = member.type
                type_text(returned)  # what it returns is decoded by it: parameters are checked by the selector
        yield selector_of(name, parameters), FunctionAbi(name, parameters, returned)


def _events(outputs: dict[str, Any]) -> Iterator[tuple[int, EventAbi]]:
    for struct in _structs(outputs, "events", EVENTS_MAX):
        name = _name(str(struct.get("path")).rpartition("::")[2], "the name of an event")
        members = _struct_members(struct, f"event {name}")
        yield int.from_bytes(selector_of(name, members), "big"), EventAbi(name, members)


def _storage(outputs: dict[str, Any], contract: str) -> Iterator[tuple[str, int]]:
    """Layouts of imported contracts are there too: each says whose it is."""
    exports = _object(outputs.get("globals", {}), "outputs.globals").get("storage", [])
    for export in _list(exports, "outputs.globals.storage", SLOTS_MAX):
        parts = dict(_values(export, "outputs.globals.storage"))
        if parts.get("contract_name", {}).get("value") != contract:
            continue
        for name, value in _values(parts.get("fields"), "the layout of storage"):
            for _, slot in _values(value, f"storage of {name}"):
                yield _name(name, "a name of storage"), _slot(slot.get("value"), name)
                break


def _slot(value: object, name: str) -> int:
    if not isinstance(value, str) or _SLOT.fullmatch(value) is None or int(value, 16) >= MODULUS:
        raise DecodeError(f"storage of {name}: a slot in hexadecimal digits, below the modulus, expected")
    return int(value, 16)


def _values(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in _list(_object(value, path).get("fields"), path, SLOTS_MAX):
        member = _object(item, path)
        yield str(member.get("name")), _object(member.get("value"), path)


def _errors(value: object) -> dict[int, str]:
    found: dict[int, str] = {}
    for key, text in list(_object(value, "errors").items()):
        if len(found) >= ERRORS_MAX:
            raise DecodeError(f"errors: at most {ERRORS_MAX} are kept")
        if not isinstance(text, str) or len(text) > ERROR_LENGTH_MAX or not key.isascii() or not key.isdigit():
            raise DecodeError(f"errors: texts of at most {ERROR_LENGTH_MAX} characters by decimal numbers expected")
        if len(key) <= len(str(1 << 64)):
            found[int(key)] = text
    return found


def _structs(outputs: dict[str, Any], key: str, count_max: int) -> Iterator[dict[str, Any]]:
    structs = _object(outputs.get("structs", {}), "outputs.structs").get(key, [])
    for struct in _list(structs, f"outputs.structs.{key}", count_max):
        yield _object(struct, f"outputs.structs.{key}[]")


# ---- types and values ---------------------------------------------------------------------------------------


def selector_of(name: str, parameters: Iterable[Member]) -> bytes:
    """The four bytes that call a function, or mark an event, of this name with these parameters."""
    text = f"{name}({','.join(type_text(member.type) for member in parameters)})".encode()
    fields = [
        text[start : start + _BYTES_PER_FIELD].ljust(FIELD_BYTES, b"\0")[::-1]
        for start in range(0, len(text), _BYTES_PER_FIELD)
    ]
    return poseidon2.hash_fields(b"".join(fields))[-_SELECTOR_BYTES:]


def type_text(type_: AbiType, depth: int = 0) -> str:
    """The type as signatures spell it."""
    kind = type_.get("kind")
    if depth > DEPTH_MAX:
        raise DecodeError(f"a type is nested more than {DEPTH_MAX} deep")
    if kind == "field":
        return "Field"
    if kind == "boolean":
        return "bool"
    if kind == "integer":
        return f"{'i' if type_.get('sign') == 'signed' else 'u'}{_number(type_, 'width')}"
    if kind == "string":
        return f"str<{_number(type_, 'length')}>"
    if kind == "array":
        inner = _object(type_.get("type"), "the type of an array")
        return f"[{type_text(inner, depth + 1)};{_number(type_, 'length')}]"
    if kind == "tuple":
        items = _list(type_.get("fields"), "a tuple", SLOTS_MAX)
        return f"({','.join(type_text(_object(item, 'a tuple'), depth + 1) for item in items)})"
    if kind == "struct":
        return f"({','.join(type_text(member.type, depth + 1) for member in _struct_members(type_, 'a struct'))})"
    raise DecodeError(f"a type of kind {str(kind)[:40]!r} is not known")


def _number(type_: AbiType, key: str) -> int:
    value = type_.get(key)
    if type(value) is not int or not 0 <= value <= JSON_INTEGER_MAX:
        raise DecodeError(f"{key} of a type: a number expected")
    return value


def decode_fields(members: Iterable[Member], fields: bytes) -> list[dict[str, Any]] | None:
    """``[{"name", "value"}]`` of joined fields: numbers as text, addresses in hexadecimal, structs as objects.

    None when there are fewer fields than the types take, or more values than are shown.
    """
    decoder = _Decoder(fields)
    try:
        return [{"name": member.name, "value": decoder.next(member.type)} for member in members]
    except (IndexError, DecodeError):
        return None


class _Decoder:
    def __init__(self, fields: bytes) -> None:
        self._fields = fields
        self._at = 0
        self._left = DECODED_VALUES_MAX

    def next(self, type_: AbiType, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > DEPTH_MAX:
            raise IndexError("too many values")
        kind = type_.get("kind")
        if kind == "struct":
            members = _struct_members(type_, "a struct")
            if len(members) == 1 and str(type_.get("path")).endswith("::AztecAddress"):
                return hex_text(self._field())
            return {member.name: self.next(member.type, depth + 1) for member in members}
        if kind == "array":
            inner = _object(type_.get("type"), "an array")
            return [self.next(inner, depth + 1) for _ in range(_number(type_, "length"))]
        if kind == "tuple":
            return [self.next(_object(item, "a tuple"), depth + 1) for item in type_["fields"]]
        if kind == "string":
            return self._text(_number(type_, "length"))
        value = self._field()
        if kind == "boolean":
            return any(value)
        number = int.from_bytes(value, "big")
        if kind == "integer" and type_.get("sign") == "signed":
            width = min(_number(type_, "width"), 256)
            return str(number - (1 << width) if width and number >> (width - 1) & 1 else number)
        return str(number) if kind == "integer" or number >> 64 == 0 else hex_text(value)

    def _text(self, length: int) -> str:
        if length > DECODED_VALUES_MAX:
            raise IndexError("too long a text")
        codes = [int.from_bytes(self._field(), "big") for _ in range(length)]
        return "".join(chr(code) if 0x20 <= code < 0x7F else "\N{REPLACEMENT CHARACTER}" for code in codes if code)

    def _field(self) -> bytes:
        value = self._fields[self._at : self._at + FIELD_BYTES]
        if len(value) < FIELD_BYTES:
            raise IndexError("too few fields")
        self._at += FIELD_BYTES
        return value


# ---- hashes ---------------------------------------------------------------------------------------------------


def _hash(data: bytes) -> bytes:
    number = int.from_bytes(hashlib.sha256(data).digest(), "big") % MODULUS
    return number.to_bytes(FIELD_BYTES, "big")


def _key_hash(key: bytes, path: str) -> bytes:
    if not key or len(key) % FIELD_BYTES:
        raise DecodeError(f"{path}.verification_key: fields of {FIELD_BYTES} bytes expected")
    try:
        return poseidon2.hash_fields(key)
    except ValueError:
        raise DecodeError(f"{path}.verification_key: it holds what is no field") from None


def _root(leaves: list[tuple[bytes, bytes]]) -> bytes:
    """By rising selector; an empty tree has the root zero."""
    level = [leaf for _, leaf in sorted(leaves, key=lambda pair: pair[0])]
    if not level:
        return ZERO_FIELD
    size = 1 << (len(level) - 1).bit_length()
    level += [ZERO_FIELD] * (size - len(level))
    while len(level) > 1:
        level = [_hash(level[place] + level[place + 1]) for place in range(0, len(level), 2)]
    return level[0]


def _sorted_json(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise DecodeError(f"the artifact holds what has no JSON form: {error}") from None


# ---- reading ------------------------------------------------------------------------------------------------


def _check_size(value: object) -> None:
    """DecodeError for more values or a deeper nesting than an artifact has, and for numbers that JSON has no one form
    of."""
    count = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        count += 1
        if count > VALUES_MAX:
            raise DecodeError(f"the artifact has more than {VALUES_MAX} values")
        if depth > 2 * DEPTH_MAX:
            raise DecodeError(f"the artifact is nested more than {2 * DEPTH_MAX} deep")
        if isinstance(item, dict):
            pending.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            pending.extend((inner, depth + 1) for inner in item)
        elif isinstance(item, float) or (type(item) is int and abs(item) > JSON_INTEGER_MAX):
            raise DecodeError("the artifact has a number that is not a whole one of at most 53 bits")


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DecodeError(f"{path}: an object expected")
    return value


def _list(value: object, path: str, count_max: int) -> list[Any]:
    if not isinstance(value, list):
        raise DecodeError(f"{path}: an array expected")
    if len(value) > count_max:
        raise DecodeError(f"{path}: at most {count_max} expected, got {len(value)}")
    return value


def _text(value: object, path: str, length_max: int) -> str:
    if not isinstance(value, str):
        raise DecodeError(f"{path}: a text expected")
    if len(value) > length_max:
        raise DecodeError(f"{path}: at most {length_max} characters expected, got {len(value)}")
    return value


def _name(value: object, path: str) -> str:
    """A name that can be shown anywhere."""
    text = _text(value, path, NAME_LENGTH_MAX)
    if not text or not text.isprintable() or " " in text:
        raise DecodeError(f"{path}: a name without blanks and control characters expected")
    return text


def _members(value: object, path: str) -> tuple[Member, ...]:
    found = []
    for item in _list(value, path, FUNCTIONS_MAX):
        member = _object(item, path)
        found.append(Member(_name(member.get("name"), path), _object(member.get("type"), path)))
    return tuple(found)


def _struct_members(type_: AbiType, path: str) -> tuple[Member, ...]:
    return _members(type_.get("fields"), path)


def _base64(text: str, path: str) -> bytes:
    """In pieces: one call for megabytes would keep the interpreter from all other threads."""
    pieces = [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]
    try:
        decoded = [base64.b64decode(piece, validate=True) for piece in pieces]
        if any("=" in piece for piece in pieces[:-1]):
            raise ValueError("padding before the end")
        return b"".join(decoded)
    except (binascii.Error, ValueError):
        raise DecodeError(f"{path}: base64 expected") from None


def _hex(value: object, path: str, size: int) -> bytes:
    text = _text(value, path, 2 + 2 * size)
    try:
        found = encode.from_hex(text)
    except ValueError:
        found = b""
    if len(found) != size:
        raise DecodeError(f"{path}: 0x and {2 * size} hexadecimal digits expected")
    return found


def _field(value: object, path: str) -> bytes:
    found = _hex(value, path, FIELD_BYTES)
    if int.from_bytes(found, "big") >= MODULUS:
        raise DecodeError(f"{path}: it is no field")
    return found
