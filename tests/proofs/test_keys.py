"""The verification keys of the releases, and what ties them to a network."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from fastnode.kernels import poseidon2
from fastnode.proofs.inputs import Circuit
from fastnode.proofs.keys import VerificationKeys
from fastnode.protocol.releases import FIVE, FOUR, Release

#: As the releases publish them.
KEYS = {
    "4.x": (
        127,
        "2dbd2a372a9329c66b456eabc669cb5725fe6398c2ce27d971023767ec05555d",
        "09d03e99c395b8eeaa8a069c767a8401243efa78bc3613edf38f9f16641f53b3",
    ),
    "5.x": (
        115,
        "14cb1de648f360fa2a0257d1c6cc59c9ac0d4dc70942422bbe85696b71b7765c",
        "05200b2ca6ae476d5166f0c80c41e0bd4420b65e24e2c2f7b9aa48dba8e509e3",
    ),
}


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda release: release.name)
def test_the_shipped_keys_are_those_of_the_release_and_lead_to_its_root(release: Release) -> None:
    keys = VerificationKeys.of_release(release)
    fields, to_rollup, to_public = KEYS[release.name]
    assert (keys.release, keys.tree_root) == (release.name, release.vk_tree_root)
    for circuit, key_hash in ((Circuit.TO_ROLLUP, to_rollup), (Circuit.TO_PUBLIC, to_public)):
        assert len(keys.of(circuit)) == 32 * fields
        assert poseidon2.hash_fields(keys.of(circuit)).hex() == key_hash


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda release: release.name)
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda record: record["siblings"].reverse(), "lead to the root"),
        (lambda record: record["siblings"].pop(), "lead to the root"),
        (lambda record: record["toRollup"].update(index=5), "no neighbours"),
        (lambda record: record["toPublic"].update(index=7), "no neighbours"),
        (lambda record: record["toRollup"].update(record["toPublic"] | {"index": 4}), "public inputs"),
        (lambda record: record["toPublic"].update(key=record["toPublic"]["key"][:-4]), "bytes, expected"),
    ],
)
def test_damaged_keys_are_refused(release: Release, change: Any, complaint: str) -> None:
    record = copy.deepcopy(dict(release.circuits))
    change(record)
    with pytest.raises(ValueError, match=complaint):
        VerificationKeys.of_release(replace(release, circuits=record))


def test_the_keys_of_another_root_are_refused() -> None:
    with pytest.raises(ValueError, match="lead to the root"):
        VerificationKeys.of_release(replace(FOUR, vk_tree_root=b"\x11" * 32))
