"""Sequences of what a hostile proposer, L1 and time do, on the model of L1, with followers in this process.

They are the scenarios of ``scripts/compare-derivation``, thousands of which the model has time for.  The proposer says
where a follower may stand; beside the node that sees everything, one begins anew at the end of each sequence.
"""

from __future__ import annotations

import gc
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.derivation.l1 import L1_SLOT_S, STATES_KEPT, hexed
from tests.derivation.model_l1 import ModelL1
from tests.derivation.proposer import Built, Proposer
from tests.derivation.scenario import act, heal, mixture
from tests.sources import conftest as following_nodes
from tests.sources.conftest import FollowingNode, following
from tests.sources.l1.publishing import ScriptedBeacon, served

from fastnode.app.stages import derivation
from fastnode.app.stages.origins import OriginPatience
from fastnode.data_check import check_data
from fastnode.errors import FastnodeError
from fastnode.protocol.tips import L2Tips
from fastnode.publishing.envelope import BlobBundle
from fastnode.sources.blobs.fetcher import FetchPatience
from fastnode.sources.l1 import retries
from fastnode.sources.l1.source import L1Source

__all__ = ["SequenceError", "Sequences", "run_sequences", "without_pauses"]

#: Until a follower is where it belongs, with nothing in its way but a busy machine.
PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.01
#: One of so many groups is checked as ``fastnode db check`` does it.
CHECKED_EACH: Final = 13


class SequenceError(AssertionError):
    """What a follower has, or says of itself."""


@contextmanager
def without_pauses() -> Iterator[None]:
    """Nobody rests after what went wrong for longer than a test waits."""
    at_once = FetchPatience(retries_s=(0.0,), store_rounds_s=(0.0,), lie_rest_s=0.001)
    quick = OriginPatience(
        unavailable_s=0.01,
        unavailable_max_s=0.02,
        aside_s=0.02,
        aside_max_s=0.02,
        retry_after_max_s=0.1,
        blocked_s=0.01,
        shortening_s=0.03,
        l1_grace_s=0.05,
    )
    terms = L1Source.__init__.__kwdefaults__
    before = following_nodes.QUICK, derivation.FetchPatience, retries.PAUSE_MAX_S, terms["first_pause_s"]
    following_nodes.QUICK, derivation.FetchPatience = quick, lambda: at_once  # type: ignore[assignment]
    retries.PAUSE_MAX_S, terms["first_pause_s"] = 0.02, 0.01  # type: ignore[misc]
    try:
        yield
    finally:
        following_nodes.QUICK, derivation.FetchPatience, retries.PAUSE_MAX_S, terms["first_pause_s"] = before  # type: ignore[misc]


class AnySlotBeacon(ScriptedBeacon):
    """A consensus client that has what it has in every slot."""

    def _listed(self, slot: str, shown: Callable[[bytes, bytes], Any]) -> tuple[int, dict[str, Any]]:
        self.blobs[int(slot)] = self.blobs.get(0, [])
        return super()._listed(slot, shown)


class Sequences:
    """One model of L1 with its followers, for some sequences after each other.  ``directory``: for all data."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        stack.enter_context(without_pauses())
        self._directory = directory
        self._blobs = directory / "blobs"
        self._blobs.mkdir(parents=True)
        self.l1 = ModelL1()
        self.l1.beacon = AnySlotBeacon()
        stack.enter_context(served(self.l1))
        self.l1.skip(STATES_KEPT)
        (directory / "made").mkdir()
        self.proposer = Proposer(self.l1, directory / "made", self._blobs)
        stack.callback(self.proposer.close)
        self.proposer.takes_blobs = self._take_blobs
        #: In no other place than at the consensus client.
        self._there: list[BlobBundle] = []
        self._beacon = "has nothing"
        self._life = stack.enter_context(ExitStack())
        self.node = self._open("always", self._life)
        self.counts: Counter[str] = Counter()

    # ---- nodes ---------------------------------------------------------------------------------

    def _open(self, name: str, life: ExitStack) -> FollowingNode:
        return life.enter_context(
            following(
                self._directory / name,
                l1_rpc_urls=(self.l1.url,),
                blob_file_store_urls=(f"file://{self._blobs}",),
                l1_consensus_host_urls=(self.l1.beacon.url,),
                registry_address=self.l1.registry,
                ethereum_slot_duration=L1_SLOT_S,
                l1_polling_interval_ms=5,
                max_allowed_eth_client_drift_seconds=0,
                ethereum_allow_no_debug_hosts=True,
            )
        )

    def _end_life(self) -> None:
        """End the node; a view in the frames of an error that it met keeps a database open until it is collected."""
        self._life.close()
        gc.collect()

    def restart(self) -> None:
        self._end_life()
        self.node = self._open("always", self._life)

    def kill(self, actions: Sequence[dict[str, Any]]) -> None:
        """Go on with what the disk had at the first of the node's commits while ``actions`` happen."""
        always, copy = self._directory / "always", self._directory / "killed"
        shutil.rmtree(copy, ignore_errors=True)

        def keep(_: Any) -> None:
            if not copy.exists():
                shutil.copytree(always, copy)

        self.node.on_published.append(keep)
        for action in actions:
            self._do(action)
        self.settle(self.node)
        self._end_life()
        if copy.exists():
            self.counts["killed at a commit"] += 1
            shutil.rmtree(always)
            copy.rename(always)
        self.node = self._open("always", self._life)

    def compare_with_a_fresh_one(self, *, is_checked: bool = False) -> None:
        """Let one begin with nothing, and compare all that both have."""
        shutil.rmtree(self._directory / "fresh", ignore_errors=True)
        with ExitStack() as life:
            fresh = self._open("fresh", life)
            self.settle(fresh)
            self._wait(lambda: _other_tips(fresh.tips, self.node.tips))
            differences = list(_differences(fresh, self.node))
            if differences:
                raise SequenceError(f"a fresh node and the one that saw it all differ: {differences[:4]}")
            if is_checked and (problems := check_data(fresh.data).problems):
                raise SequenceError(f"a fresh node has stored {problems[:3]}")

    # ---- where a node belongs --------------------------------------------------------------------

    def settle(self, node: FollowingNode) -> None:
        """Wait until a node is where the proposer says that it belongs."""
        self._wait(lambda: self._wrong_with(node))

    def _wait(self, wrong: Callable[[], str | None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (what := wrong()) is not None:
            if time.monotonic() > deadline:
                raise SequenceError(what)
            time.sleep(LOOK_S)

    def _wrong_with(self, node: FollowingNode) -> str | None:
        if node.failures or any(node.follower.faults().values()):
            raise SequenceError(f"{node.failures} {node.follower.faults()}")
        with self.l1.lock:
            chain, expected = self.proposer.chain(), self.proposer.expected()
            proven = self.l1.head.proven
        view = node.ingestor.view
        tips = view.tips
        number = tips.checkpointed.checkpoint.number
        found = [built for built in expected if _is_at(tips, built)]
        shown = f"is at {number}, belongs at {[(item.number, item.verdict) for item in expected]}"
        if not found:
            return f"{shown}: {node.follower.describe()}"
        if tips.proposed != tips.checkpointed.block:
            return f"is at block {tips.proposed.number}, beyond checkpoint {number}"
        if tips.proven.checkpoint.number != min(proven, number):
            return f"has proven {tips.proven.checkpoint.number} of {number}, L1 {proven}"
        if tips.finalized.checkpoint.number > self.l1.final:
            raise SequenceError(f"says that {tips.finalized.checkpoint.number} is final, on L1 {self.l1.final} is")
        if (what := self._other_places(view, found[0])) is not None:
            return what
        if all(built.verdict == "good" for built in chain[1:]):
            if node.follower.trouble is not None or not node.follower.is_ready:
                return f"is where it belongs, and says {node.follower.describe()}"
            if node.follower.invalid_checkpoint is not None:
                return f"says that {node.follower.invalid_checkpoint.number} is not valid"
        elif chain[-1].verdict == "bad" and node.follower.trouble is None:
            return "says nothing of a checkpoint that is not good"
        return None

    def _other_places(self, view: Any, built: Built) -> str | None:
        """What is named as the block of L1 that has a checkpoint must be of L1 now, and what is attested to too."""
        blocks = self.l1.blocks
        while built.number and built.number > view.tips.finalized.checkpoint.number:
            stored = view.checkpoint(built.number)
            said = json.loads(stored.l1_json)
            place = int(said["blockNumber"])
            if place >= len(blocks) or hexed(blocks[place].hash) != said["blockHash"]:
                return f"names block {place} of L1 for checkpoint {built.number}, which L1 does not have"
            if not any(item.number == built.number for item in blocks[place].proposals):
                return f"names block {place} of L1 for checkpoint {built.number}, which is not in it"
            assert built.parent is not None
            built = built.parent
        return None

    # ---- sequences -----------------------------------------------------------------------------

    def run(self, actions: Sequence[dict[str, Any]]) -> None:
        for action in actions:
            if action["do"] == "quiet":
                self.settle(self.node)
            elif action["do"] == "late":
                self.settle(self.node)
                self.compare_with_a_fresh_one()
            elif action["do"] == "restart":
                self.restart()
            elif action["do"] == "kill":
                self.counts["kill"] += 1
                self.kill(action["during"])
            elif action["do"] == "pause":
                self.counts["pause"] += 1
                self._pause(action["during"])
            else:
                self._do(action)
        self.settle(self.node)
        heal(self.proposer)
        self.settle(self.node)

    def _do(self, action: dict[str, Any]) -> None:
        self.counts[action["do"]] += 1
        if action["do"] == "beacon":
            self._change_beacon(action["how"])
        elif action["do"] == "lag":
            self._lag(action["blocks"], action["during"])
        else:
            act(self.proposer, action)

    # ---- providers -------------------------------------------------------------------------------

    def _take_blobs(self, bundle: BlobBundle) -> bool:
        """Every blob is where somebody gives it as it is; the consensus client may have it too, or alone."""
        if self._beacon == "has nothing":
            return False
        self.l1.beacon.put(0, bundle.blobs)
        if self._beacon == "honest":
            self._there.append(bundle)
        return self._beacon == "honest"

    def _change_beacon(self, how: str) -> None:
        beacon = self.l1.beacon
        for bundle in self._there:
            self.proposer.store(bundle)
        self._there, self._beacon = [], how
        with beacon.lock:
            beacon.status = 503 if how == "is away" else None
            beacon.tamper = _spoilt if how == "lies" else lambda blob: blob

    def _lag(self, blocks: int, actions: Sequence[dict[str, Any]]) -> None:
        """L1 has not indexed the logs of its newest blocks yet."""
        self.l1.unindexed = blocks
        for action in actions:
            self._do(action)
        self.l1.unindexed = 0

    def _pause(self, actions: Sequence[dict[str, Any]]) -> None:
        """The operator holds the node; it must not move meanwhile."""
        if not self.node.control.pause(PATIENCE_S):
            raise SequenceError("a node does not pause")
        before = self.node.tips
        for action in actions:
            self._do(action)
        if self.node.tips != before:
            raise SequenceError("a node moves while it is paused")
        self.node.control.resume()


def _spoilt(blob: bytes) -> bytes:
    return blob[:100] + bytes([blob[100] ^ 1]) + blob[101:]


def _other_tips(ours: L2Tips, theirs: L2Tips) -> str | None:
    """What is final is asked for once in a while, and stays final."""
    one, other = (replace(tips, finalized=ours.finalized) for tips in (ours, theirs))
    return None if one == other else f"a fresh node has {ours.to_json()}, the other one {theirs.to_json()}"


def _is_at(tips: L2Tips, built: Built) -> bool:
    tip = tips.checkpointed
    if tip.checkpoint.number != built.number or not built.blocks:
        return tip.checkpoint.number == built.number == 0
    last = built.blocks[-1]
    return tip.block.number == last.number and (built.content != "good" or tip.block.hash == last.hash())


def _differences(one: FollowingNode, other: FollowingNode) -> Iterator[str]:
    """Of chains that both have whole."""
    ours, theirs = one.ingestor.view, other.ingestor.view
    if one.data.state.view.tip != other.data.state.view.tip:
        yield "the roots of their trees"
    for number in range(1, ours.tip_number + 1):
        if ours.load_block(number) != theirs.load_block(number):
            yield f"block {number}"
    for number in range(1, ours.tips.checkpointed.checkpoint.number + 1):
        if ours.checkpoint(number) != theirs.checkpoint(number):
            yield f"checkpoint {number}"
        if ours.l1_to_l2_messages(number) != theirs.l1_to_l2_messages(number):
            yield f"messages of checkpoint {number}"


def run_sequences(seeds: Sequence[int], group: int, say: Callable[[str], None]) -> tuple[list[int], Counter[str]]:
    """Mixtures of all kinds on the model, ``group`` of them on one L1; seeds of those that failed, and counts."""
    failed, counts, waiting = list[int](), Counter[str](), list(seeds)
    while waiting:
        run = list[int]()
        try:
            _run_group(waiting[:group], run, counts)
        except (AssertionError, FastnodeError, OSError) as error:  # also of a node that has ended, when it is closed
            failed.append(run[-1])
            say(f"FAILED seed {run[-1]}, behind {run[:-1]}: {error!r:.2000}\n{json.dumps(mixture(run[-1]))}")
        counts["sequences"] += len(run)
        say(f"{counts['sequences']} sequences, newest seed {run[-1]}, failed {failed}")
        waiting = waiting[len(run) :]
    return failed, counts


def _run_group(seeds: Sequence[int], run: list[int], counts: Counter[str]) -> None:
    """``run``: those that were begun."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sequences-")))
        run.append(seeds[0])
        sequences = Sequences(stack, directory)
        for seed in seeds:
            if seed != seeds[0]:
                run.append(seed)
            sequences.run(mixture(seed))
        # Working out again all that is stored takes as long as the rest.
        sequences.compare_with_a_fresh_one(is_checked=not seeds[0] % CHECKED_EACH)
        counts.update(sequences.counts)
