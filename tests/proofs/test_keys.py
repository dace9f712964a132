"""The verification keys that come with the package, and what ties them to a network."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest

from fastnode.kernels import poseidon2
from fastnode.proofs.inputs import Circuit
from fastnode.proofs.keys import KEY_BYTES, RELEASE, VerificationKeys

#: As the release publishes them.
TREE_ROOT = "1dd2644a17d1ddd8831287a78c5a1033b7ae35cdf2a3db833608856c062fc2ba"
KEY_HASHES = {
    Circuit.TO_ROLLUP: "2dbd2a372a9329c66b456eabc669cb5725fe6398c2ce27d971023767ec05555d",
    Circuit.TO_PUBLIC: "09d03e99c395b8eeaa8a069c767a8401243efa78bc3613edf38f9f16641f53b3",
}


@pytest.fixture
def record() -> dict[str, Any]:
    return dict(json.loads(resources.files("fastnode").joinpath("data", f"proof_keys_{RELEASE}.json").read_bytes()))


def test_the_shipped_keys_are_those_of_the_release_and_lead_to_its_root() -> None:
    keys = VerificationKeys.shipped()
    assert keys.release == RELEASE
    assert keys.tree_root.hex() == TREE_ROOT
    for circuit, key_hash in KEY_HASHES.items():
        assert len(keys.of(circuit)) == KEY_BYTES
        assert poseidon2.hash_fields(keys.of(circuit)).hex() == key_hash


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda record: record["siblings"].reverse(), "lead to the root"),
        (lambda record: record["siblings"].pop(), "lead to the root"),
        (lambda record: record.update(vkTreeRoot="0x" + "11" * 32), "lead to the root"),
        (lambda record: record["toRollup"].update(index=5), "no neighbours"),
        (lambda record: record["toPublic"].update(index=7), "no neighbours"),
        (lambda record: record["toRollup"].update(record["toPublic"] | {"index": 4}), "public inputs"),
        (lambda record: record["toPublic"].update(key=record["toPublic"]["key"][:-4]), "bytes, expected"),
    ],
)
def test_damaged_keys_are_refused(record: dict[str, Any], change: Any, complaint: str) -> None:
    change(record)
    with pytest.raises(ValueError, match=complaint):
        VerificationKeys.from_record(record)
