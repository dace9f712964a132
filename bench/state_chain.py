"""A world state of any size, from random blocks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.world_state.chain import genesis_record, random_field, seal
from tests.world_state.chain import tx_effect as tx_effect_of

from fastnode.kernels import indexed_tree
from fastnode.protocol.effects import Body, PublicDataWrite, TxEffect
from fastnode.protocol.releases import FOUR
from fastnode.world_state.apply import BlockDraft, PreparedBlock
from fastnode.world_state.state import WorldState

#: Blocks on top of the large ones, as a quiet network has them: one transaction with three of everything.
SMALL_BLOCKS: Final = 1_000
TXS_PER_LARGE_BLOCK: Final = 32
PER_TX: Final = 64
WRITES_PER_TX: Final = 8


def tx_effect(rng: random.Random, count: int, writes: int) -> TxEffect:
    """``count`` note hashes and nullifiers, and ``writes`` new slots."""
    return tx_effect_of(
        rng,
        [random_field(rng) for _ in range(count)],
        [random_field(rng) for _ in range(count)],
        [PublicDataWrite(random_field(rng), random_field(rng)) for _ in range(writes)],
    )


def prepare(state: WorldState, effects: Sequence[TxEffect]) -> PreparedBlock:
    """The next block, all but written."""
    number = state.block_number + 1
    draft = BlockDraft(Body(tuple(effects)), number, 0)
    return state.build(draft, (), seal(number))[1]


def add(state: WorldState, effects: Sequence[TxEffect]) -> None:
    state.commit(prepare(state, effects))


def disk_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def fill(state: WorldState, nullifiers: int, *, seed: int = 1) -> dict[str, Any]:
    """Large blocks up to that many nullifiers, then the small ones; what that took and takes.

    Times are of the processor, both threads together, so that a busy machine does not count.
    """
    rng = random.Random(seed)
    last_tenth = nullifiers - nullifiers // 10
    start = at_last_tenth = (0, time.process_time())
    while state.view.tip.sizes[0] < nullifiers:
        missing = -(-(nullifiers - state.view.tip.sizes[0]) // PER_TX)
        effects = [tx_effect(rng, PER_TX, WRITES_PER_TX) for _ in range(min(TXS_PER_LARGE_BLOCK, missing))]
        if state.view.tip.sizes[0] <= last_tenth:
            at_last_tenth = state.view.tip.sizes[0], time.process_time()
        add(state, effects)
    end = state.view.tip.sizes[0], time.process_time()
    state._database.compact()
    large_disk = disk_bytes(state.path)
    facts = {
        "nullifiers": end[0],
        "large_blocks": state.block_number,
        "cpu_us_per_nullifier": _us_each(start, end),
        "cpu_us_per_nullifier_last_tenth": _us_each(at_last_tenth, end),
        "upper_nodes_bytes": state.memory_bytes() - history_bytes(state),
        "history_bytes": history_bytes(state),
        "disk_bytes": large_disk,
    }
    before = time.process_time()
    for _ in range(SMALL_BLOCKS):
        add(state, [tx_effect(rng, 3, 3)])
    facts["cpu_ms_per_small_block"] = round((time.process_time() - before) / SMALL_BLOCKS * 1e3, 2)
    state._database.compact()
    facts["disk_bytes_per_small_block"] = (disk_bytes(state.path) - large_disk) // SMALL_BLOCKS
    return facts


def _us_each(start: tuple[int, float], end: tuple[int, float]) -> float:
    return round((end[1] - start[1]) / (end[0] - start[0]) * 1e6, 1)


def history_bytes(state: WorldState) -> int:
    """Memory of what blocks replaced."""
    entries = sum(tree.nodes.history_length() for tree in state._forest.indexed)
    return entries * indexed_tree.HISTORY_ENTRY_BYTES


def open_filled(directory: Path, nullifiers: int, *, cache_mb: int = 256) -> tuple[WorldState, dict[str, Any]]:
    """The state in a folder, filled if it is new there."""
    kept = directory / f"facts-{nullifiers}.json"
    state = WorldState(directory, genesis_record(), cache_mb=cache_mb, rules=FOUR.trees)
    if not kept.exists():
        facts = fill(state, nullifiers)
        kept.write_text(json.dumps(facts))
    return state, json.loads(kept.read_text())
