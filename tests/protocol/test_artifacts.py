"""Artifacts of contracts: class ids that follow from them, names, decoded values, and what strangers may put in one."""

from __future__ import annotations

import lzma
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from fastnode.artifacts.store import ArtifactStore
from fastnode.errors import DecodeError
from fastnode.protocol import artifacts
from fastnode.protocol.artifacts import Member, compact_artifact, decode_fields, read_compact, selector_of
from fastnode.protocol.fields import field_from_int

#: A published artifact without debug symbols and source, and without bytecode that its class id does not depend on.
FILE = Path(__file__).parents[1] / "data" / "artifact_avm_test.json.xz"
#: The class id that the sample chain has for it.
CLASS_ID = "1bb1d16fefb011fee81f9a404f9bcb9d7446f84e65d0f6eec62837ca3e82096b"
#: Class ids that the release's packages give, of contracts that every network has.
FEE_JUICE = "16b2d5ef5044c11126a16ccdb3778082eb423375977da9458d493fdf84505e81"
#: Artifacts that are made up; more where there is time.
CASES = 20_000 if os.environ.get("FASTNODE_LONG") == "1" else 400


@cache
def _text() -> bytes:
    return lzma.decompress(FILE.read_bytes())


def raw() -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(_text())
    return record


@cache
def _compact_text() -> bytes:
    return orjson.dumps(compact_artifact(raw()))


def compact() -> dict[str, Any]:
    record: dict[str, Any] = orjson.loads(_compact_text())
    return record


def test_the_class_id_follows_from_the_artifact_and_from_its_compact_form() -> None:
    found = read_compact(compact_artifact(raw()))
    assert found.class_id.hex() == CLASS_ID
    assert found == read_compact(compact())
    assert compact_artifact(compact()) == compact()
    assert len(_compact_text()) < 50_000


def test_names_come_from_what_the_class_id_vouches_for() -> None:
    found = read_compact(compact())
    assert found.name == "AvmTest"
    assert found.storage == {"single": 1, "list": 2, "map": 4}
    function = found.functions[selector_of("set_storage_map", _parameters("to", "amount"))]
    assert [parameter.name for parameter in function.parameters] == ["to", "amount"]
    assert found.errors[16325148165106107723] == "This assertion should fail!"


def _parameters(*names: str) -> tuple[Member, ...]:
    address = {"kind": "struct", "path": "a::AztecAddress", "fields": [{"name": "inner", "type": {"kind": "field"}}]}
    number = {"kind": "integer", "sign": "unsigned", "width": 32}
    return Member(names[0], address), Member(names[1], number)


def test_contracts_of_the_release_are_known_without_registration() -> None:
    store = ArtifactStore(None)
    found = store.find(bytes.fromhex(FEE_JUICE))
    assert found is not None
    assert (found.name, found.storage) == ("FeeJuice", {"balances": 1})
    assert store.find(bytes(32)) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(name="Another"),
        lambda record: _dispatch(record).update(bytecode="AAAA" + _dispatch(record)["bytecode"][4:]),
        lambda record: record["outputs"]["globals"]["storage"].pop(),
        lambda record: record["outputs"]["structs"]["functions"].pop(),
        lambda record: _private(record).update(bytecode="AAAA"),
        lambda record: _private(record).update(verification_key="A" * 43 + "="),
        lambda record: record["functions"].remove(_private(record)),
    ],
)
def test_any_change_that_matters_gives_another_class(spoil: Any) -> None:
    record = raw()
    spoil(record)
    assert read_compact(compact_artifact(record)).class_id.hex() != CLASS_ID


def _dispatch(record: dict[str, Any]) -> dict[str, Any]:
    return next(function for function in record["functions"] if function["name"] == "public_dispatch")


def _private(record: dict[str, Any]) -> dict[str, Any]:
    return next(function for function in record["functions"] if "abi_private" in function["custom_attributes"])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda record: record.update(functions={}), "functions: an array expected"),
        (lambda record: record.update(functions=[{}] * 513), "functions: at most 512 expected, got 513"),
        (lambda record: record.update(name="a b"), "name: a name without blanks"),
        (lambda record: record.update(outputs=None), "outputs: an object expected"),
        (lambda record: record.update(transpiled=False), "not transpiled"),
        (lambda record: _private(record).update(bytecode="!"), "bytecode: base64 expected"),
        (lambda record: _private(record).update(bytecode="A" * 65534 + "==AAAA"), "bytecode: base64 expected"),
        (lambda record: _private(record).update(verification_key="AAAA"), "verification_key: fields of 32 bytes"),
        (lambda record: _private(record).pop("verification_key"), "verification_key: a text expected"),
        (lambda record: _private(record).update(custom_attributes=[]), "neither private nor public"),
    ],
)
def test_what_is_wrong_is_named(spoil: Any, reason: str) -> None:
    record = raw()
    spoil(record)
    with pytest.raises(DecodeError, match=reason):
        compact_artifact(record)


def test_values_are_decoded_as_their_types_say() -> None:
    kinds: list[dict[str, Any]] = [
        {"kind": "field"},
        {"kind": "boolean"},
        {"kind": "integer", "sign": "signed", "width": 8},
        {"kind": "array", "length": 2, "type": {"kind": "integer", "sign": "unsigned", "width": 128}},
        {"kind": "string", "length": 3},
        {"kind": "tuple", "fields": [{"kind": "field"}, {"kind": "boolean"}]},
        _parameters("to", "amount")[0].type,
        {"kind": "struct", "path": "x::Pair", "fields": [{"name": "left", "type": {"kind": "field"}}]},
    ]
    numbers = [1 << 64, 1, 254, 3, 1 << 100, ord("a"), ord("b"), 7, 9, 0, 0x1234, 5]
    fields = b"".join(map(field_from_int, numbers))
    decoded = decode_fields([Member(f"m{place}", kind) for place, kind in enumerate(kinds)], fields)
    assert decoded is not None
    assert [member["value"] for member in decoded] == [
        "0x" + hex(1 << 64)[2:].zfill(64),
        True,
        "-2",
        ["3", str(1 << 100)],
        "ab\N{REPLACEMENT CHARACTER}",
        ["9", False],
        "0x" + "1234".zfill(64),
        {"left": "5"},
    ]
    assert decode_fields([Member("m", kinds[3])], fields[:32]) is None, "too few fields"
    endless = {"kind": "array", "length": 1 << 40, "type": {"kind": "array", "length": 0, "type": {"kind": "field"}}}
    assert decode_fields([Member("m", endless)], fields) is None


def test_hostile_artifacts_are_refused_or_of_another_class_and_nothing_else() -> None:
    """Seeded: values anywhere are replaced by ones of other types, sizes and depths."""
    deep: Any = {"kind": "field"}
    for _ in range(200):
        deep = {"kind": "array", "length": 1, "type": deep}
    odd: list[Any] = [None, True, -1, 1.5, 1 << 63, "", "x" * 10_000, "\ud800", "\0", [], {}, [[]], deep, [deep] * 3]
    odd += [
        {"kind": "struct", "fields": None},
        {"kind": "integer"},
        {"kind": "array", "length": 1 << 60},
        "0x",
        "f" * 64,
    ]
    outcomes = {"refused": 0, "other": 0, "same": 0}
    randomly = Random(42)
    for case in range(CASES):
        record = compact() if case % 8 else raw()
        for _ in range(randomly.choice((1, 1, 1, 3))):
            _replace_one(record, odd, randomly)
        try:
            found = read_compact(compact_artifact(record))
        except DecodeError:
            outcomes["refused"] += 1
            continue
        outcomes["same" if found.class_id.hex() == CLASS_ID else "other"] += 1
        for function in found.functions.values():
            decode_fields(function.parameters, bytes(64 * 32))
    assert min(outcomes.values()) > 0, outcomes


def _replace_one(record: Any, odd: list[Any], randomly: Random) -> None:
    at = record
    for _ in range(randomly.randrange(1, 9)):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = randomly.choice(keys)
        if not isinstance(at[key], dict | list) or not at[key] or randomly.random() < 0.15:
            at[key] = randomly.choice(odd)
            return
        at = at[key]


def test_more_values_or_a_deeper_nesting_than_an_artifact_has_are_refused() -> None:
    record = compact()
    record["outputs"]["globals"]["more"] = [0] * (artifacts.VALUES_MAX + 1)
    with pytest.raises(DecodeError, match="more than 50000 values"):
        read_compact(record)
    record = compact()
    inner: Any = []
    for _ in range(100):
        inner = [inner]
    record["outputs"]["globals"]["more"] = inner
    with pytest.raises(DecodeError, match="nested more than"):
        read_compact(record)
