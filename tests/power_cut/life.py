"""One life of a data directory, in a process whose files are recorded: ``python -m tests.power_cut.life``.

It reads jobs, a line of JSON each, runs each in a fork of itself, and says the exit code.  A job does some steps of all
kinds of work on the databases, at small distances, so that a short chain has work for each; after each commit it adds
a line to a file beside the directory, which is recorded too: what was told to somebody.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.log_index.chain import older_form

from fastnode.archiver import gathered_run, ingest, layout, packing, pruning
from fastnode.archiver.source import CheckpointRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.protocol.tips import L2Tips
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.storage import giving_back
from fastnode.storage.database import DatabaseMemory, open_leveldb
from fastnode.world_state import layout as state_layout
from fastnode.world_state import state as world_state
from fastnode.world_state.state import WORLD_STATE_DIRECTORY

#: Below a recorded folder: the data directory, and the file of what was told.
DATA: Final = "data"
TOLD: Final = "told"
#: Two write buffers of the least size, so that tables are written and merged all the time.
MEMORY: Final = DatabaseMemory(block_cache_bytes=1 << 20, write_buffer_bytes=64 << 10)
HISTORY_CHECKPOINTS: Final = 6
BLOCKS_KEPT: Final = 20


def shorten_distances(put: Callable[[Any, str, int], None] = setattr) -> None:
    """Give a short chain all kinds of work."""
    put(world_state, "THIN_BEHIND_CHECKPOINTS", 3)
    put(world_state, "SHORT_HISTORY_CHECKPOINTS", 3)
    put(world_state, "PRUNED_BLOCKS_PER_STEP", 2)
    put(world_state, "KEYS_REMOVED_PER_BATCH", 300)
    put(ingest, "UNDO_BLOCKS_PER_BATCH", 3)
    put(pruning, "BLOCKS_PER_STEP", 3)
    put(packing, "TEXTS_PER_STEP", 60)
    put(gathered_run, "BLOCKS_MAX", 6)
    put(giving_back, "RANGE_BYTES", 64 << 10)


def options(*, history: int = 0, is_by_runs: bool = False) -> ChainOptions:
    return ChainOptions(
        world_state_cache_mb=4,
        world_state_checkpoint_history=history,
        world_state_history_from="sync" if is_by_runs else "genesis",
        tag_filter_mb=1,
        database_memory=MEMORY,
    )


class Fork:
    """A chain file: its checkpoints, and the hashes of their blocks."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with ChainFileSource(file) as source:
            self.checkpoints = [record for record in source.records() if isinstance(record, CheckpointRecord)]
        blocks = [block for item in self.checkpoints for block in item.published.checkpoint.blocks]
        self.hashes = {block.number: block.hash() for block in blocks}


fork_of = functools.cache(Fork)


class Life:
    """``chains`` are the files of two forks; the directory is on one of them, or before where they part."""

    def __init__(self, folder: Path, chains: list[Fork], seed: str) -> None:
        self._data = folder / DATA
        self._told = (folder / TOLD).open("ab", buffering=0)
        self._chains = chains
        self._dice = random.Random(seed)
        self._work = "start"

    def tell(self, **facts: Any) -> None:
        self._told.write(json.dumps({"work": self._work, **facts}).encode() + b"\n")

    def run(self, steps: int) -> None:
        dice = self._dice
        chosen = options(history=dice.choice([0, 0, HISTORY_CHECKPOINTS]), is_by_runs=dice.random() < 0.4)
        self.tell(begins=True)
        with ChainData.open(self._data, options=chosen) as data:
            if not data.store.has_chain:
                adopt_chain_file(data.store, self._chains[0].file)
            self._ingestor = ingestor = data.open_ingestor(verify=False, on_commit=lambda _: self._tell_state())
            self._state = data.state
            ingestor.catch_up()
            self._store = data.store
            self._tell_state()
            works = self._works(has_history=chosen.world_state_checkpoint_history > 0)
            for name in self._plan(list(works), steps):
                self._work = name
                self.tell(begins=True)
                works[name]()
                self._tell_state()
            self._work = "close"
            self.tell(begins=True)

    def _tell_state(self) -> None:
        view, state = self._ingestor.view, self._state.view
        self.tell(
            tip=view.tip_number,
            hash=view.block_info(view.tip_number).hash.hex(),  # type: ignore[union-attr]
            body=view.oldest_body,
            oldest=state.oldest,
            thin=state.thin,
        )

    def _works(self, *, has_history: bool) -> dict[str, Callable[[], None]]:
        works: dict[str, Callable[[], None]] = {
            "blocks": self._blocks,
            "runs": self._runs,
            "undo": self._undo,
            "rebuild": self._rebuild,
            "thin": lambda: self._steps(self._state.thin),
            "bodies": lambda: self._between(lambda: self._ingestor.prune_bodies(BLOCKS_KEPT)),
            "pack": lambda: self._between(self._ingestor.pack_texts),
            "merge": self._merge,
            "finality": self._finality,
        }
        if has_history:
            works["history"] = lambda: self._steps(self._state.prune)
        return works

    def _plan(self, works: list[str], steps: int) -> list[str]:
        """Random kinds of work, with blocks and finality before, so that there is something to work on."""
        begin = ["blocks", "finality"] if self._dice.random() < 0.7 else []
        return begin + [self._dice.choice([*works, "blocks", "finality"]) for _ in range(steps - len(begin))]

    # ---- kinds of work -------------------------------------------------------------------------

    def _steps(self, step: Callable[[], bool]) -> None:
        for _ in range(self._dice.randint(1, 4)):
            if not step():
                return
            self._tell_state()

    def _between(self, step: Callable[[], bool]) -> None:
        with self._ingestor.between_blocks():
            self._steps(step)

    def _records(self) -> list[CheckpointRecord]:
        """Checkpoints that come next, on the fork of the newest block or on any that has it."""
        view = self._ingestor.view
        tip = view.block_info(view.tip_number)
        assert tip is not None
        forks = [fork for fork in self._chains if tip.number == 0 or fork.hashes.get(tip.number) == tip.hash]
        return [
            item
            for item in self._dice.choice(forks).checkpoints
            if item.published.checkpoint.blocks[-1].number > tip.number
        ]

    def _take(self, count: int) -> None:
        for record in self._records()[:count]:
            self._ingestor.apply(record)

    def _blocks(self) -> None:
        self._take(self._dice.randint(2, 6))

    def _runs(self) -> None:
        count = self._dice.randint(3, 12)
        final = self._ingestor.view.tips.checkpointed.checkpoint.number + count
        self._ingestor.final_checkpoint = final
        self._take(count)
        self._ingestor.flush()
        self._ingestor.final_checkpoint = 0

    def _finality(self) -> None:
        view = self._ingestor.view
        newest = view.tips.checkpointed.checkpoint.number
        number = max(view.tips.finalized.checkpoint.number, newest - self._dice.randint(1, 6))
        tip = view.tip_of_checkpoint(number)
        proven = max(number, view.tips.proven.checkpoint.number)
        self._ingestor.set_tips(L2Tips(view.tips.proposed, view.tips.checkpointed, view.tip_of_checkpoint(proven), tip))

    def _undo(self) -> None:
        view = self._ingestor.view
        lowest = max(view.tips.finalized.block.number, self._state.view.oldest, view.oldest_body)
        target = self._dice.randint(min(lowest, view.tip_number), view.tip_number)
        self.tell(target=target)
        self._ingestor.undo_above(target)

    def _rebuild(self) -> None:
        view = self._ingestor.view
        if view.oldest_body > 1 or view.tip_number > 40:
            return
        target = self._dice.randint(view.tips.finalized.block.number, view.tip_number)
        self.tell(target=target)
        self._ingestor.rebuild_above(target)

    def _merge(self) -> None:
        for owner in (self._state, self._store):
            if self._dice.random() < 0.3:
                owner.database.compact()
            while owner.giving_back.merge_next() is not None:
                pass
        with self._ingestor.between_blocks():
            self._state.end_giving_back()
            self._store.end_giving_back()


def age(directory: Path) -> None:
    """Give databases, nothing of which is thin or pruned, the form of the oldest version that is still read."""
    with ArchiverStore.open(directory, create=False) as store:
        with store.open_view() as view:
            logs = older_form(view)
            texts = [(key, text) for key, text in view.scan() if key[0] in layout.TEXTS]
        store.database.write([*texts, *logs.items()])
        store.database.write([(layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"2")])
    with open_leveldb(directory / WORLD_STATE_DIRECTORY, create=False) as opened:
        assert opened.get(state_layout.THIN_KEY) is None
        opened.put(state_layout.SCHEMA_KEY, b"1")


def run(job: dict[str, Any], chains: list[Fork]) -> NoReturn:
    code = 1
    try:
        shorten_distances()
        folder = Path(job["folder"])
        ctypes.CDLL(None).record_files(os.fsencode(folder), os.fsencode(job["recording"]))
        Life(folder, chains, job["seed"]).run(job["steps"])
        code = 0
    except BaseException:  # noqa: BLE001 - told to the one who asked
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        chains = [fork_of(Path(chain)) for chain in job["chains"]]
        pid = os.fork()
        if pid == 0:
            run(job, chains)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
