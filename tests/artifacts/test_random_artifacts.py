"""Random artifacts: one that is registered names whatever a transaction did, and raises nothing.

Thirty are tried always, two hundred with FASTNODE_LONG=1; FASTNODE_SEED=N tries other ones.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import orjson
import pytest

from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.errors import DecodeError
from fastnode.protocol.artifacts import Artifact, compact_artifact, read_compact
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, field_from_int

IS_LONG: Final = os.environ.get("FASTNODE_LONG") == "1"
SEED: Final = int(os.environ.get("FASTNODE_SEED", "41"))
ARTIFACTS: Final = 200 if IS_LONG else 30
#: Contents that are decoded by each.
CONTENTS: Final = 40
ADDRESS: Final = field_from_int(0x77)


class Maker:
    """Artifacts in their compact form.  A part of one is now and then something else than it should be."""

    def __init__(self, dice: random.Random, oddity: float) -> None:
        self._dice = dice
        self._oddity = oddity

    def odd(self, usual: Any) -> Any:
        if self._dice.random() >= self._oddity:
            return usual
        return self._dice.choice([None, -1, 0, 1 << 60, 2.5, True, "", "-1", [], {}, [usual], {"kind": "tuple"}])

    def name(self) -> str:
        return self._dice.choice("abcdefgh") + str(self._dice.randrange(1000))

    def number(self) -> Any:
        return self.odd(self._dice.choice([0, 1, 3, 8, 32, 64, 128, 254, 256, 300, 70_000, (1 << 53) - 1]))

    def type(self, depth: int = 0) -> Any:
        dice = self._dice
        simple = ["field", "boolean", "integer", "string"]
        kind = dice.choice(simple if depth > 4 else [*simple, "array", "tuple", "struct"])
        made: dict[str, Any] = {"kind": kind}
        if kind == "integer":
            made |= {"sign": self.odd(dice.choice(["signed", "unsigned"])), "width": self.number()}
        elif kind == "string":
            made["length"] = self.number()
        elif kind == "array":
            made |= {"length": self.number(), "type": self.type(depth + 1)}
        elif kind == "tuple":
            made["fields"] = self.odd([self.type(depth + 1) for _ in range(dice.randrange(4))])
            if dice.random() < self._oddity:
                del made["fields"]
        elif kind == "struct":
            path = dice.choice(["a::b", "address::AztecAddress", "x::AztecAddress"])
            made |= {"path": self.odd(path), "fields": self.odd(self.members(depth + 1))}
        return self.odd(made)

    def members(self, depth: int = 0) -> list[Any]:
        return [{"name": self.odd(self.name()), "type": self.type(depth)} for _ in range(self._dice.randrange(4))]

    def function(self, contract: str) -> dict[str, Any]:
        fields = [{"name": "parameters", "type": {"kind": "struct", "path": "p", "fields": self.members()}}]
        if self._dice.random() < 0.7:
            fields.append({"name": "return_type", "type": self.type()})
        return {"kind": "struct", "path": f"{contract}::{self.name()}_abi", "fields": fields}

    def slot(self) -> Any:
        number = self._dice.choice([0, 1, 2, 3, 9, MODULUS - 1, MODULUS - 5, MODULUS, 1 << 256, -1, (1 << 255) + 7])
        return self.odd(self._dice.choice([f"{number:064x}", f"{number:x}", hex(number), "1_0", " 7", "0x"]))

    def storage(self, contract: str) -> dict[str, Any]:
        fields = [
            {
                "name": self.odd(self.name()),
                "value": {
                    "kind": "struct",
                    "fields": [{"name": "slot", "value": {"kind": "integer", "value": self.slot()}}],
                },
            }
            for _ in range(self._dice.randrange(4))
        ]
        named = {"name": "contract_name", "value": {"kind": "string", "value": contract}}
        return {"kind": "struct", "fields": [named, {"name": "fields", "value": {"kind": "struct", "fields": fields}}]}

    def artifact(self) -> dict[str, Any]:
        contract, dice = self.name(), self._dice
        outputs = {
            "structs": {
                "functions": [self.function(contract) for _ in range(dice.randrange(6))],
                "events": [{"path": f"e::{self.name()}", "fields": self.members()} for _ in range(dice.randrange(4))],
            },
            "globals": {"storage": [self.storage(contract) for _ in range(dice.randrange(3))]},
        }
        return {
            "name": contract,
            "outputs": self.odd(outputs),
            "functions": [],
            "publicBytecodeCommitment": "0x" + "07" * 32,
            "errors": self.odd({str(dice.randrange(1 << 64)): "Assertion failed" for _ in range(dice.randrange(4))}),
        }


def require_names(artifact: Artifact, dice: random.Random) -> None:
    """Everything that is asked of an artifact while a trace or a page is made, with random content."""
    chain: Any = SimpleNamespace(tip_number=1, block_info=lambda _number: None)
    for _ in range(CONTENTS):
        naming = Naming(ArtifactStore(None), chain)
        naming.artifact_of = lambda _address: artifact  # type: ignore[method-assign]
        fields = b"".join(field(dice) for _ in range(dice.choice([0, 1, 2, 5, 20, 600])))
        odd_bytes = dice.randbytes(dice.choice([0, 1, 31, 33, 100]))
        selector = dice.choice([*artifact.functions, dice.randbytes(4)])
        naming.note_keys([field(dice) for _ in range(dice.randrange(12))])
        made = [
            naming.of_call(ADDRESS, content, output, success=dice.random() < 0.5)
            for content in (bytes(28) + selector + fields, bytes(28) + selector + odd_bytes, odd_bytes, b"")
            for output in (fields, odd_bytes)
        ]
        for event in [*artifact.events, dice.randrange(1 << 32)]:
            made.append(naming.of_log(ADDRESS, fields + field_from_int(event)))
        made.append(naming.of_log(ADDRESS, odd_bytes))
        for slot in [field(dice), *(field_from_int(base) for base in artifact.storage.values())]:
            naming.slot(ADDRESS, slot)
        naming.leaf_slots([ADDRESS])
        naming.assertion(ADDRESS, fields)
        orjson.dumps(made)


def field(dice: random.Random) -> bytes:
    number = dice.choice([0, 1, dice.randrange(1 << 32), dice.randrange(MODULUS), MODULUS - 1, (1 << 256) - 1])
    return number.to_bytes(FIELD_BYTES, "big")


@pytest.mark.parametrize("oddity", [0.0, 0.02, 0.2], ids=["right", "nearly right", "wrong"])
def test_an_artifact_is_refused_or_names_any_content(tmp_path: Path, oddity: float) -> None:
    outcomes: Counter[str] = Counter()
    store = ArtifactStore(tmp_path)
    while outcomes["accepted"] < ARTIFACTS and outcomes.total() < 100 * ARTIFACTS:
        dice = random.Random(f"{SEED} {oddity} {outcomes.total()}")
        record = orjson.loads(orjson.dumps(Maker(dice, oddity).artifact()))
        try:
            artifact = store.register(record, lambda _: None)
        except DecodeError:
            outcomes["refused"] += 1
            continue
        outcomes["accepted"] += 1
        require_names(artifact, dice)
        found = ArtifactStore(tmp_path).find_registered(artifact.class_id)
        assert found is not None, "what was stored is read again"
        if outcomes["accepted"] % 500 == 0:
            for file in tmp_path.iterdir():
                file.unlink()
    print(oddity, dict(outcomes))
    assert outcomes["accepted"] >= min(ARTIFACTS, 10)


@pytest.mark.parametrize("slot", ["-1", f"{MODULUS:x}", "0x", "1_0", " 1", "", 7])
def test_a_slot_that_is_no_field_is_refused(slot: Any) -> None:
    maker = Maker(random.Random(1), 0.0)
    record = maker.artifact()
    storage = maker.storage(record["name"])
    value = {"kind": "struct", "fields": [{"name": "slot", "value": {"kind": "integer", "value": slot}}]}
    storage["fields"][1]["value"]["fields"] = [{"name": "balances", "value": value}]
    record["outputs"]["globals"]["storage"] = [storage]
    with pytest.raises(DecodeError, match="storage of balances: a slot in hexadecimal digits, below the modulus"):
        read_compact(compact_artifact(record))


def test_a_return_type_that_cannot_be_decoded_is_refused() -> None:
    record = Maker(random.Random(1), 0.0).artifact()
    returned = {"name": "return_type", "type": {"kind": "tuple"}}
    function = {"kind": "struct", "path": f"{record['name']}::f_abi", "fields": [returned]}
    record["outputs"]["structs"]["functions"] = [function]
    with pytest.raises(DecodeError, match="a tuple: an array expected"):
        read_compact(record)
