"""Sequences of hostile proposals, reorgs, prunes and providers that fail, on a model of the contracts of 5.x.

FASTNODE_LONG=1 runs three thousand, FASTNODE_SEED=N begins with others; ``scripts/compare-derivation --model`` too.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.derivation.scenario import mixture
from tests.derivation.sequences import Sequences, run_sequences

SEQUENCES = 3_000 if os.environ.get("FASTNODE_LONG") == "1" else 12
FIRST = int(os.environ.get("FASTNODE_SEED", "1"))
GROUP = 12


def test_followers_are_where_the_contracts_of_5_x_are_whatever_a_proposer_does() -> None:
    said: list[str] = []
    failed, counts = run_sequences(range(FIRST, FIRST + SEQUENCES), GROUP, said.append)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    assert not failed, "\n".join(said)


def test_checkpoints_of_two_three_and_six_blobs_are_followed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        sequences = Sequences(stack, tmp_path)
        sequences.run([{"do": "beacon", "how": "honest"}])
        before = len(sequences.proposer.chain())
        for seed, (content, blocks) in enumerate([("two blobs", 1), ("largest", 1), ("largest", 2)]):
            sequences.run([{"do": "propose", "seed": seed, "txs": 20, "content": content, "blocks": blocks}])
        bundles = [built.bundle for built in sequences.proposer.chain()[before:]]
        counts = [len(bundle.blobs) for bundle in bundles if bundle is not None]
        # A small one is behind each: run() ends with it.
        assert counts == [2, 1, 3, 1, 6, 1]
        sequences.compare_with_a_fresh_one(is_checked=True)


def test_a_seed_is_a_sequence() -> None:
    assert mixture(5) == mixture(5) != mixture(6)


@pytest.mark.parametrize(
    "kind", ["prune", "false invalidation", "prove", "propose", "beacon", "pause", "kill", "lag", "late", "restart"]
)
def test_sequences_have_all_kinds_of_actions(kind: str) -> None:
    assert Counter(action["do"] for seed in range(1, 60) for action in mixture(seed))[kind]


@pytest.mark.parametrize("content", ["classes", "many", "largest"])
def test_sequences_have_all_kinds_of_content(content: str) -> None:
    assert any(action.get("content") == content for seed in range(1, 400) for action in mixture(seed))
