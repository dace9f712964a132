"""Roots from leaves that somebody else holds are those of the block headers, of any range of blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from fastnode.archiver.queries import stored_block
from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import VerificationError
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import field_from_int
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.world_state.range_check import Leaves, as_nodes

BLOCKS = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainData]:
    folder = tmp_path_factory.mktemp("chain")
    write_synthetic_chain(folder / "chain.jsonl", ChainShape(blocks=BLOCKS, txs=3, writes=4, vary=True))
    with ChainData.open(folder / "data") as opened:
        adopt_chain_file(opened.store, folder / "chain.jsonl")
        import_chain_file(opened.open_ingestor(verify=False), folder / "chain.jsonl")
        yield opened


@pytest.fixture(scope="module")
def blocks(data: ChainData) -> list[L2Block]:
    with data.store.open_view() as view:
        return [stored_block(view, number) for number in range(1, BLOCKS + 1)]


def padded(start: int, groups: Sequence[Sequence[bytes]]) -> Leaves:
    """Leaves of transactions, 64 places each."""
    places = [start + 64 * at + index for at, group in enumerate(groups) for index in range(len(group))]
    rows = as_nodes(b"".join([leaf for group in groups for leaf in group]))
    return Leaves(start, start + 64 * len(groups), np.array(places, np.int64), rows)


def ranges() -> list[tuple[int, int]]:
    chance = random.Random(7)
    return [(1, BLOCKS), (1, 1), (BLOCKS, BLOCKS), *(sorted(chance.sample(range(2, BLOCKS), 2)) for _ in range(6))]


@pytest.mark.parametrize(("first", "last"), ranges())
def test_ranges_of_leaves_give_the_roots_of_the_headers(
    data: ChainData, blocks: list[L2Block], first: int, last: int
) -> None:
    check = data.state.open_range_check()
    inside = blocks[first - 1 : last]
    before = data.state.view.record(first - 1)
    after = blocks[last - 1].header.state
    effects = [effect for block in inside for effect in block.body.tx_effects]
    notes = padded(before.sizes[1], [effect.note_hashes for effect in effects])
    if effects:
        assert check.append_only_root(check.forest.note_hashes, notes) == after.note_hash_tree.root
    hashes = b"".join([block.hash() for block in inside])
    archive = Leaves(first, last + 1, np.arange(first, last + 1), as_nodes(hashes))
    assert check.append_only_root(check.forest.archive, archive) == blocks[last - 1].archive.root
    newest = blocks[-1].header.state.nullifier_tree
    if effects:
        keys = padded(before.sizes[0], [effect.nullifiers for effect in effects])
        assert keys.stop == after.nullifier_tree.next_available_leaf_index
        assert check.nullifier_root(keys) == newest.root
    values = {write.leaf_slot: write.value for effect in effects for write in effect.public_data_writes}
    if values:
        slots = b"".join(values)
        assert check.public_data_root(slots, b"".join(values.values()), last) == after.public_data_tree.root
        other = values | {next(iter(values)): field_from_int(7)}
        assert check.public_data_root(slots, b"".join(other.values()), last) != after.public_data_tree.root


def test_keys_that_are_not_there_or_elsewhere_are_named(data: ChainData, blocks: list[L2Block]) -> None:
    check = data.state.open_range_check()
    size = data.state.view.record(0).sizes[0]
    key = next(effect.nullifiers[0] for block in blocks for effect in block.body.tx_effects)
    with pytest.raises(VerificationError, match=rf"0x{key.hex()} is leaf {size}, expected as leaf {size + 1}"):
        check.nullifier_root(Leaves(size, size + 64, np.array([size + 1]), as_nodes(key)))
    with pytest.raises(VerificationError, match="is not in the tree, expected as leaf"):
        check.nullifier_root(Leaves(size, size + 64, np.array([size]), as_nodes(field_from_int(12345))))
    slot = next(w.leaf_slot for e in blocks[-1].body.tx_effects for w in e.public_data_writes[::-1])
    last = [write for effect in blocks[-1].body.tx_effects for write in effect.public_data_writes]
    new = next(
        (
            w.leaf_slot
            for w in last
            if check.forest.public_data.find(check.view.snapshot, w.leaf_slot).inserted == BLOCKS
        ),
        slot,
    )
    with pytest.raises(VerificationError, match="is not in the tree"):
        check.public_data_root(new, field_from_int(1), BLOCKS - 1)
