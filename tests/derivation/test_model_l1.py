"""The model of L1 against the compiled contracts of 5.x: hostile calls, one after the other, on both."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.derivation.both_l1 import NAMES, BothL1
from tests.derivation.proposer import Proposer
from tests.derivation.scenario import act, heal, mixture, without_followers_in_this_process
from tests.ports import free_port
from tests.publishing.live_l1 import needs_anvil

#: Between them calls of all kinds are taken and refused.
is_long = os.environ.get("FASTNODE_LONG") == "1"
SEEDS = range(60 if is_long else 4)
#: Later than any clock on a wall, which would let everything expire.
BEGIN = 1_900_000_000
AN_L1 = 12


@needs_anvil
def test_the_model_takes_and_refuses_what_the_contracts_do(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for first in range(0, len(SEEDS), AN_L1):
        l1 = BothL1(free_port())
        try:
            l1.open(BEGIN)
            play(l1, SEEDS[first : first + AN_L1], tmp_path / str(first))
        finally:
            l1.kill()
        counts += l1.counts
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    for name in NAMES.values() if is_long else ("propose", "sendL2Message", "invalidateBadAttestation"):
        # What can be pruned has been by a proposal before anybody asks for it.
        assert counts[f"{name} taken"] or name == "prune"
        assert counts[f"{name} refused"] or name == "sendL2Message"
    assert counts["invalidated"]
    assert counts["pruned"] or not is_long


def play(l1: BothL1, seeds: range, directory: Path) -> None:
    (directory / "made").mkdir(parents=True)
    (directory / "blobs").mkdir()
    proposer = Proposer(l1, directory / "made", directory / "blobs")
    try:
        for seed in seeds:
            for action in without_followers_in_this_process(mixture(seed)):
                act(proposer, action)
            heal(proposer)
    finally:
        proposer.close()
