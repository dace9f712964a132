"""Roots from leaves that somebody else holds are those of the block headers, of any range of blocks."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fastnode.archiver.queries import stored_block
from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import VerificationError
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import field_from_int
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

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
    notes = b"".join([b"".join(effect.note_hashes).ljust(64 * 32, b"\0") for effect in effects])
    if notes:
        assert check.append_only_root(check.forest.note_hashes, before.sizes[1], notes) == after.note_hash_tree.root
    hashes = b"".join([block.hash() for block in inside])
    assert check.append_only_root(check.forest.archive, first, hashes) == blocks[last - 1].archive.root
    places = {
        before.sizes[0] + 64 * at + index: key
        for at, effect in enumerate(effects)
        for index, key in enumerate(effect.nullifiers)
    }
    newest = blocks[-1].header.state.nullifier_tree
    if effects:
        stop = after.nullifier_tree.next_available_leaf_index
        assert check.nullifier_root(before.sizes[0], places, stop) == newest.root
    values = {write.leaf_slot: write.value for effect in effects for write in effect.public_data_writes}
    if values:
        assert check.public_data_root(list(values.items()), last) == after.public_data_tree.root
        slot = next(iter(values))
        other = values | {slot: field_from_int(7)}
        assert check.public_data_root(list(other.items()), last) != after.public_data_tree.root


def test_keys_that_are_not_there_or_elsewhere_are_named(data: ChainData, blocks: list[L2Block]) -> None:
    check = data.state.open_range_check()
    size = data.state.view.record(0).sizes[0]
    key = next(effect.nullifiers[0] for block in blocks for effect in block.body.tx_effects)
    with pytest.raises(VerificationError, match=rf"0x{key.hex()} is leaf {size}, expected as leaf {size + 1}"):
        check.nullifier_root(size, {size + 1: key}, size + 64)
    with pytest.raises(VerificationError, match="is not in the tree, expected as leaf"):
        check.nullifier_root(size, {size: field_from_int(12345)}, size + 64)
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
        check.public_data_root([(new, field_from_int(1))], BLOCKS - 1)
