"""The trees of release 5.x against the native world state of that release: roots, sizes, paths and low leaves."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.world_state.tree_steps import TreeSteps

from fastnode.protocol.releases import FIVE, FOUR
from fastnode.world_state.genesis import genesis_of

#: Genesis of the networks that began with 5.x, which have no prefilled data.
ARCHIVE_ROOT = "177a4955b31ecaafad999753938a44e526b54c5ba5d536688227f85f15cfbdf5"
BLOCK_HASH = "0e7bf88e8833c27b0fca6be614ecc2c63def7bffa35b3ccfa1caff3e39e0c0d2"
EMPTY_BLOCK_HASH_4 = "2ff681dd7730c7b9e5650c70afa57ee81377792dfc95d98c11817b8c761ff965"


def test_the_genesis_of_mainnet_and_testnet_follows_from_the_separators() -> None:
    genesis = genesis_of([], FIVE.trees)
    assert (genesis.archive.root.hex(), genesis.record.block_hash.hex()) == (ARCHIVE_ROOT, BLOCK_HASH)
    assert genesis_of([], FOUR.trees).record.block_hash.hex() == EMPTY_BLOCK_HASH_4


def test_random_steps_have_the_roots_and_paths_of_the_native_world_state(data_directory: Path, tmp_path: Path) -> None:
    trees = TreeSteps(tmp_path / "trees", FIVE)
    lines = gzip.decompress((data_directory / "release-5" / "state.jsonl.gz").read_bytes()).splitlines()
    steps = paths = 0
    for line in lines:
        entry = json.loads(line)
        if entry["request"]["op"] == "step":
            trees.step(entry["request"])
            steps += 1
        paths += "paths" in entry["answer"]
        assert trees.differences(entry["request"], entry["answer"]) == []
    trees.close()
    assert (steps, paths) == (200, 10)


@pytest.mark.parametrize("name", ["node", "nullifier_node", "public_data_node"])
def test_each_separator_matters(name: str) -> None:
    from dataclasses import replace

    other = replace(FIVE.trees, separators=replace(FIVE.separators, **{name: b"\0" * 31 + b"\1"}))
    assert genesis_of([], other).archive.root.hex() != ARCHIVE_ROOT
