"""The check of the trees with their history: whatever byte of it is another one is found, and only then is anything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.effort import tries
from tests.world_state.chain import Maker, open_state
from tests.world_state.test_state import build

from fastnode.world_state import state as state_module
from fastnode.world_state.layout import HASH_BYTES, INDEX_BYTES, TREE_COUNT
from fastnode.world_state.state import WorldState

BLOCKS = 12
#: History is thin up to so many blocks behind the final one.
BEHIND = 2
FLIPS_PER_KIND = tries(2, 20)
#: Kinds of entries with the ids of their trees.
KINDS = (
    *(kind + tree for kind in (b"H", b"P", b"K", b"T", b"N") for tree in (b"\0", b"\2")),
    b"T\1",
    b"V\1",
    b"U",
    b"B",
)
#: Bytes of a block record that are judged here: roots and sizes.
RECORD_BYTES = TREE_COUNT * (HASH_BYTES + INDEX_BYTES)


def chain(directory: Path, rng: random.Random, history: int, final: int) -> WorldState:
    """Blocks without and with transactions, each a checkpoint of its own."""
    maker, state = Maker(rng), open_state(directory, history=history)
    for number in range(1, BLOCKS + 1):
        build(state, maker.content(txs=rng.choice([0, 1, 2, 3]), most=5, is_first=True), number)
    if final:
        state.settle(final)
        while state.thin():
            pass
        assert state.view.thin == final - BEHIND
    return state


def kinds(state: WorldState) -> Iterator[tuple[bytes, list[tuple[bytes, bytes]]]]:
    """Entries that are worked out again, by kind and tree, or by kind alone."""
    oldest = state.view.oldest
    for kind in (
        b"H\0",
        b"H\2",
        b"P\0",
        b"P\2",
        b"K\0",
        b"K\2",
        b"T\0",
        b"T\2",
        b"N\0",
        b"N\2",
        b"T\1",
        b"V\1",
        b"U",
        b"B",
    ):
        with state.view.snapshot.scan(kind) as entries:
            found = list(entries)
        if kind == b"B":
            found = [(key, value[:RECORD_BYTES]) for key, value in found if int.from_bytes(key[1:], "big") >= oldest]
        yield kind, found


@pytest.mark.parametrize(
    ("seed", "history", "final"),
    [(1, 0, 0), (2, 3, 0), (3, 0, 10)],
    ids=["all history", "a short history", "thin history"],
)
def test_any_byte_that_is_another_one_is_found(
    tmp_path: Path, seed: int, history: int, final: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_module, "THIN_BEHIND_CHECKPOINTS", BEHIND)
    rng = random.Random(seed)
    with chain(tmp_path, rng, history, final) as state:
        assert state.check() == []
        for kind, entries in kinds(state):
            for key, value in rng.sample(entries, min(FLIPS_PER_KIND, len(entries))):
                whole = state._database.get(key)
                assert whole is not None
                changed = bytearray(whole)
                changed[rng.randrange(len(value) - harmless_bytes(state, kind, whole))] ^= 1 << rng.randrange(8)
                assert faults_with(state, key, bytes(changed)), f"{key!r} as {changed.hex()} in place of {value.hex()}"
                if kind[:1] in (b"H", b"P", b"U"):
                    assert faults_with(state, key, None), f"{key!r} is gone"
                state._database.write([(key, whole)])
        state._open()
        assert state.check() == []


def harmless_bytes(state: WorldState, kind: bytes, value: bytes) -> int:
    """Bytes at the end of an entry that nobody reads: the predecessor of a leaf that is as old as the history."""
    is_old = kind[:1] == b"K" and int.from_bytes(value[-HASH_BYTES - 4 : -HASH_BYTES], "big") <= state.view.oldest
    return HASH_BYTES if is_old else 0


def faults_with(state: WorldState, key: bytes, value: bytes | None) -> list[str]:
    """Faults of the state with an entry changed, as one that is opened then would find them."""
    state._database.write([(key, value)])
    state._open()
    return state.check()
