"""The five trees: applying blocks, and witnesses as bytes, in process.

Hashing runs on every kernel that this processor has, side by side.  Baselines: the number of hashes times the
kernel's own time for one in bulk, a database get of a value as large as the answer.

``FASTNODE_BENCH_STATE_LEAVES`` sets the size of the nullifier tree for the reads: 10,000 by default, 1,000,000 for
the figures of README.md.  ``FASTNODE_BENCH_STATE_DIRECTORY`` names a folder to keep the database in and to find it
again.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.state_chain import PER_TX, SMALL_BLOCKS, add, open_filled, prepare, tx_effect
from tests.world_state.chain import genesis_record, random_field

from fastnode.kernels import poseidon2
from fastnode.protocol.releases import FOUR
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import TreeSize
from fastnode.world_state.layout import VALUE
from fastnode.world_state.state import WorldState
from fastnode.world_state.trees import NOTE_HASH
from fastnode.world_state.view import WorldStateView

LEAVES = int(os.environ.get("FASTNODE_BENCH_STATE_LEAVES", "10000"))
KEPT = os.environ.get("FASTNODE_BENCH_STATE_DIRECTORY")

APPENDED = 16_384
SMALL_TREE = 4_096
QUERIES = 4_096
WITNESS_BYTES = 42 * 32


@pytest.fixture(params=poseidon2.available_kernels())
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every kernel in turn."""
    before = poseidon2.kernel_name()
    poseidon2.use_kernel(request.param)
    yield request.param
    poseidon2.use_kernel(before)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorldState]:
    """LEAVES nullifiers, then a thousand small blocks."""
    directory = Path(KEPT) / str(LEAVES) if KEPT else tmp_path_factory.mktemp("state")
    directory.mkdir(parents=True, exist_ok=True)
    state, facts = open_filled(directory, LEAVES)
    print(f"\n{facts}")
    with state:
        yield state


@pytest.fixture
def small(tmp_path: Path) -> Iterator[WorldState]:
    """A nullifier tree of 4,096 leaves."""
    rng = random.Random(1)
    with WorldState(tmp_path, genesis_record(), cache_mb=64, rules=FOUR.trees) as state:
        while state.view.tip.sizes[0] < SMALL_TREE:
            add(state, [tx_effect(rng, PER_TX, 8) for _ in range(2)])
        yield state


# ---- applying ---------------------------------------------------------------------------------------


def test_one_hash_in_bulk(benchmark: Any, kernel: str) -> None:
    """The baseline of all that follows: 4,096 pairs in one call."""
    pairs = bytes(64 * 4096)
    benchmark.extra_info["per"] = "4096 hashes"
    benchmark(poseidon2.hash_pairs, pairs)


def test_append_16384_note_hashes(benchmark: Any, kernel: str) -> None:
    """Nodes, tiles and edge, without the database."""
    rng = random.Random(2)
    tree = Forest.within(64, FOUR.trees).note_hashes
    leaves = b"".join(random_field(rng) for _ in range(APPENDED))
    frontier = bytes(32 * NOTE_HASH.height)
    benchmark(tree.nodes.append, 0, frontier, b"", leaves)


def test_append_16384_note_hashes_with_the_database(benchmark: Any, kernel: str, small: WorldState) -> None:
    """The same onto a tree that is there, with places looked up, and written in one synced batch."""
    rng = random.Random(3)
    tree = small._forest.note_hashes

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tree, small, b"".join(random_field(rng) for _ in range(APPENDED))), {}

    benchmark.pedantic(_append_and_write, setup=fresh, rounds=8)


def _append_and_write(tree: AppendOnlyTree, state: WorldState, leaves: bytes) -> None:
    snapshot, size = state.view.snapshot, state.view.tip.sizes[1]
    growth = tree.prepare(snapshot, size, leaves)
    state._database.write(tree.changes(snapshot, growth, [(1, leaves)]))


def test_insert_64_nullifiers_into_a_tree_of_4096(benchmark: Any, kernel: str, small: WorldState) -> None:
    """Low leaves, links, leaf hashes, nodes, and the keys and values to write.  Divide by 64."""
    rng = random.Random(4)
    tree, view = small._forest.nullifiers, small.view

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return ([[random_field(rng) for _ in range(PER_TX)]],), {}

    def insert(slots: list[list[bytes]]) -> None:
        block, before = view.tip.number + 1, TreeSize(view.tip.sizes[0], view.tip.roots[0])
        groups = [(block, keys) for keys in slots]
        changes = tree.insert_padded(view.snapshot, before, groups, PER_TX, block=block)
        list(tree.changes(changes))

    benchmark.extra_info["per"] = "64 nullifiers"
    benchmark.pedantic(insert, setup=fresh, rounds=100, warmup_rounds=5)


@pytest.mark.parametrize(("txs", "per_tx"), [(1, 3), (32, 64)], ids=["small", "full"])
def test_prepare_a_block(benchmark: Any, kernel: str, small: WorldState, txs: int, per_tx: int) -> None:
    """All five roots and the batch; ``per_tx`` note hashes, nullifiers and public data writes."""
    rng = random.Random(5)
    effects = [tx_effect(rng, per_tx, per_tx) for _ in range(txs)]
    benchmark.extra_info["per"] = f"{txs * per_tx} leaves in each of three trees"
    benchmark(prepare, small, effects)


def test_commit_a_small_block(benchmark: Any, small: WorldState) -> None:
    """One synced batch, the memory, and the new view: mostly the disk."""
    rng = random.Random(6)

    def fresh() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (prepare(small, [tx_effect(rng, 3, 3)]),), {}

    benchmark.pedantic(small.commit, setup=fresh, rounds=50)


# ---- reading ----------------------------------------------------------------------------------------


def cycled(benchmark: Any, ask: Callable[[Any], object], questions: list[Any]) -> None:
    """Ask one question after the other."""
    following = itertools.cycle(questions)
    benchmark(lambda: ask(next(following)))


def leaves_of(state: WorldState, tree: bytes, inserted_upto: int) -> list[bytes]:
    """Random leaves of an append-only tree (V) or keys of an indexed one (K) that an old block has too."""
    rng = random.Random(7)
    view = state.view
    if tree == b"V":
        with view.snapshot.scan(VALUE + NOTE_HASH.prefix) as entries:
            found = [key[2:] for key, place in entries if int.from_bytes(place[6:10], "big") <= inserted_upto]
    else:
        found = [
            record.key
            for run in state._forest.nullifiers.descending_leaves(view.snapshot)
            for record in run
            if record.inserted <= inserted_upto
        ]
    return rng.sample(found, min(QUERIES, len(found)))


def back(view: WorldStateView, blocks: int) -> int:
    return view.tip.number - blocks


def test_baseline_get_of_a_witness_from_the_database(benchmark: Any, filled: WorldState) -> None:
    """What a database of ready witnesses would cost: one get of 1,344 bytes among a thousand."""
    keys = [b"\xffbench%d" % number for number in range(1000)]
    filled._database.write([(key, random.Random(8).randbytes(WITNESS_BYTES)) for key in keys])
    snapshot = filled._database.snapshot()
    cycled(benchmark, snapshot.get, keys)
    snapshot.close()
    filled._database.write([(key, None) for key in keys])


@pytest.mark.parametrize("age", [0, SMALL_BLOCKS], ids=["at the tip", "1000 blocks back"])
def test_note_hash_path(benchmark: Any, filled: WorldState, age: int) -> None:
    """42 siblings of a leaf by its index, as bytes."""
    view, block = filled.view, back(filled.view, age)
    rng, size = random.Random(9), view.record(block).sizes[1]
    indexes = [rng.randrange(size) for _ in range(QUERIES)]
    cycled(benchmark, lambda index: view.sibling_path(1, index, block), indexes)


@pytest.mark.parametrize("age", [0, SMALL_BLOCKS], ids=["at the tip", "1000 blocks back"])
def test_nullifier_path(benchmark: Any, filled: WorldState, age: int) -> None:
    """42 siblings of a leaf by its index, as bytes."""
    view, block = filled.view, back(filled.view, age)
    rng, size = random.Random(10), view.record(block).sizes[0]
    indexes = [rng.randrange(size) for _ in range(QUERIES)]
    cycled(benchmark, lambda index: view.sibling_path(0, index, block), indexes)


@pytest.mark.parametrize("age", [0, SMALL_BLOCKS], ids=["at the tip", "1000 blocks back"])
def test_note_hash_witness(benchmark: Any, filled: WorldState, age: int) -> None:
    """From the note hash to its index and path."""
    view, block = filled.view, back(filled.view, age)
    leaves = leaves_of(filled, b"V", block)
    cycled(benchmark, lambda leaf: view.note_hash_witness(leaf, block), leaves)


@pytest.mark.parametrize("age", [0, SMALL_BLOCKS], ids=["at the tip", "1000 blocks back"])
def test_nullifier_witness(benchmark: Any, filled: WorldState, age: int) -> None:
    """From the nullifier to its leaf and path."""
    view, block = filled.view, back(filled.view, age)
    leaves = leaves_of(filled, b"K", block)
    cycled(benchmark, lambda leaf: view.nullifier_witness(leaf, block), leaves)


@pytest.mark.parametrize("age", [0, SMALL_BLOCKS], ids=["at the tip", "1000 blocks back"])
def test_low_leaf(benchmark: Any, filled: WorldState, age: int) -> None:
    """The leaf below a nullifier that is not there."""
    view, block = filled.view, back(filled.view, age)
    rng, tree = random.Random(11), filled._forest.nullifiers
    keys = [random_field(rng) for _ in range(QUERIES)]
    cycled(benchmark, lambda key: tree.low(view.snapshot, key, block), keys)


def test_low_nullifier_witness(benchmark: Any, filled: WorldState) -> None:
    """The low leaf with its path."""
    view, block = filled.view, filled.view.tip.number
    rng = random.Random(12)
    keys = [random_field(rng) for _ in range(QUERIES)]
    cycled(benchmark, lambda key: view.low_nullifier_witness(key, block), keys)


# ---- reading while writing --------------------------------------------------------------------------


def p99_us(latencies: list[float]) -> float:
    return round(sorted(latencies)[len(latencies) * 99 // 100] * 1e6, 1)


@pytest.mark.parametrize("pause_s", [0.0, 0.02], ids=["back to back", "with 20 ms between them"])
def test_witness_latency_while_1000_blocks_are_applied(benchmark: Any, small: WorldState, pause_s: float) -> None:
    """Witnesses one after the other, first with nothing else going on, then until a writer thread is done.

    The 99th percentiles of both are in ``extra_info`` and printed; wall clock, because waiting is what counts.
    """
    rng = random.Random(13)
    leaves = leaves_of(small, b"V", small.block_number)
    effects = [tx_effect(rng, 3, 3) for _ in range(SMALL_BLOCKS)]

    def ask() -> float:
        start = time.perf_counter()
        view = small.view
        view.note_hash_witness(rng.choice(leaves), view.tip.number)
        return time.perf_counter() - start

    def write() -> None:
        for effect in effects:
            add(small, [effect])
            time.sleep(pause_s)

    idle = [ask() for _ in range(200_000)]
    writer = threading.Thread(target=write)
    busy = []
    writer.start()
    while writer.is_alive():
        busy.append(ask())
    writer.join()
    benchmark.extra_info |= {"p99_us_idle": p99_us(idle), "p99_us_busy": p99_us(busy), "answers_busy": len(busy)}
    print(f"\n{benchmark.extra_info}")
    benchmark(ask)
