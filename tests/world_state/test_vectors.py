"""Values that the reference computed on live chains and for single trees: every root, every recorded witness."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.world_state.chain import Content, build, genesis_record, open_state, tx_effect
from tests.world_state.conftest import SampleBlocks

from fastnode.archiver.source import GenesisRecord
from fastnode.kernels import witness_text
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import PublicDataWrite
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.releases import FOUR
from fastnode.world_state import witnesses
from fastnode.world_state.forest import Forest
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.state import WorldState
from fastnode.world_state.view import WorldStateView

REPLAYS = ("344372055", "344372055_041915bb", "3658137161_2facb4a4")
SAMPLE_REPLAY = REPLAYS[2]


def as_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def as_field(text: str) -> bytes:
    """Some keys were recorded without their leading zeros."""
    return as_bytes("0x" + text[2:].rjust(64, "0"))


# ---- live chains ------------------------------------------------------------------------------------


def replay(vectors: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (replay for replay in vectors["replays"] if replay["name"] == name)
    assert isinstance(found, dict)
    return found


def whole_block(record: dict[str, Any]) -> L2Block:
    """A recorded block with what was cut away from its body filled in empty: the trees never see that."""
    absent: dict[str, Any] = {"revertCode": 0, "transactionFee": "0x" + 64 * "0"}
    absent |= {key: [] for key in ("l2ToL1Msgs", "privateLogs", "publicLogs", "contractClassLogs")}
    effects = [absent | effect for effect in record["effects"]]
    return L2Block.from_json(record | {"body": {"txEffects": effects}})


def open_replay(recorded: dict[str, Any], sample: SampleBlocks, directory: Path) -> WorldState:
    """The state after all blocks of a live chain."""
    if recorded["name"] == SAMPLE_REPLAY:
        state = WorldState(directory, sample.genesis, cache_mb=16, rules=FOUR.trees)
        sample.apply(state, upto=len(sample.blocks))
        return state
    blocks = [whole_block(record) for record in recorded["blocks"]]
    prefilled = tuple((as_bytes(slot), as_bytes(value)) for slot, value in recorded["prefilled"])
    genesis = GenesisRecord(
        genesis_record().header,
        as_bytes(recorded["genesisHash"]),
        blocks[0].header.last_archive.root,
        prefilled,
        (),
        (),
        {},
    )
    state = WorldState(directory, genesis, cache_mb=16, rules=FOUR.trees)
    for block in blocks:
        first = block.index_within_checkpoint == 0
        messages = recorded["messages"].get(str(block.checkpoint_number), []) if first else []
        state.commit(state.prepare(block, [as_bytes(message) for message in messages]))
    return state


def membership_json(witness: witnesses.Witness) -> bytes:
    return witness_text.membership(witness.index, witness.path)


def answers(view: WorldStateView, recorded: dict[str, Any]) -> Iterator[tuple[Any, bytes | None]]:
    """(what the reference answered, what we answer) of every recorded witness."""
    for method, json_of, kind in (
        (view.nullifier_witness, witnesses.nullifier_json, "nullifierWitness"),
        (view.low_nullifier_witness, witnesses.nullifier_json, "lowNullifierWitness"),
        (view.public_data_witness, witnesses.public_data_json, "publicDataWitness"),
        (view.note_hash_witness, membership_json, "noteWitness"),
        (view.message_witness, lambda found: witness_text.message(found.index, found.path), "l1ToL2Witness"),
    ):
        for key, block, expected in recorded["answers"][kind]:
            witness = method(as_field(key), block)
            yield expected, None if witness is None else json_of(witness)  # type: ignore[arg-type]
    for block_hash, index, block, expected in recorded["answers"]["archiveWitness"]:
        witness = view.block_hash_witness(as_bytes(block_hash), block)
        assert witness is None or witness.index == index
        yield expected, None if witness is None else membership_json(witness)


@pytest.mark.parametrize("name", REPLAYS)
def test_a_replayed_live_chain_has_every_root_and_every_recorded_witness(
    vectors: dict[str, Any], sample: SampleBlocks, tmp_path: Path, name: str
) -> None:
    recorded = replay(vectors, name)
    with open_replay(recorded, sample, tmp_path) as state:
        compared = 0
        for expected, ours in answers(state.view, recorded):
            assert (json.loads(ours) if ours is not None else None) == expected
            compared += 1
        assert compared >= 20
        assert state.check() == []


def test_the_generated_chain_of_the_reference_has_every_root(data_directory: Path, tmp_path: Path) -> None:
    chain = json.loads(gzip.decompress((data_directory / "protocol_chain.json.gz").read_bytes()))
    messages = {record["number"]: record["l1ToL2Messages"] for record in chain["checkpoints"]}
    with open_state(tmp_path) as state:
        for record in chain["blocks"]:
            block = L2Block.from_json(record)
            first = block.index_within_checkpoint == 0
            given = [as_bytes(text) for text in messages[block.checkpoint_number]] if first else []
            state.commit(state.prepare(block, given))
        assert state.block_number == len(chain["blocks"])
        assert state.check() == []


# ---- single trees -----------------------------------------------------------------------------------


def numbers(seed: int) -> Iterator[bytes]:
    """The generator that the vectors were made with."""
    value, i = seed, 0
    while True:
        value = (value * value + 7 * i + 3) % MODULUS
        i += 1
        yield value.to_bytes(32, "big")


def assert_tree(view: WorldStateView, tree_id: int, step: dict[str, Any]) -> None:
    assert view.tip.roots[tree_id] == as_bytes(step["root"])
    assert view.tip.sizes[tree_id] == int(step["size"])


def path_in(text: str) -> bytes:
    return as_bytes(text)[4:]


def test_appended_leaves_have_the_roots_and_paths_of_the_reference(vectors: dict[str, Any], tmp_path: Path) -> None:
    for number, case in enumerate(vectors["trees"]["append"]):
        leaves = numbers(case["seed"])
        with open_state(tmp_path / str(number)) as state:
            forest = Forest.within(16, FOUR.trees)
            tree = forest.note_hashes if case["tree"] == "NOTE_HASH_TREE" else forest.messages
            size = 0
            for batch, step in zip(case["batches"], case["steps"], strict=True):
                run = b"".join(next(leaves) for _ in range(batch))
                snapshot = Snapshot(state._database)
                growth = tree.prepare(snapshot, size, run)
                state._database.write(tree.changes(snapshot, growth, [(1, run)]))
                tree.publish(growth)
                size = growth.size
                assert (growth.root, growth.size) == (as_bytes(step["root"]), int(step["size"]))
                snapshot.close()
            snapshot = Snapshot(state._database)
            for path in case["paths"]:
                if path["index"] >= size:
                    continue  # the reference answers for empty places too
                assert tree.path(snapshot, path["index"], size, use_memory=True) == path_in(path["path"])
                assert tree.path(snapshot, path["index"], size, use_memory=False) == path_in(path["path"])
            snapshot.close()


def test_inserted_nullifiers_have_the_roots_and_low_leaves_of_the_reference(
    vectors: dict[str, Any], tmp_path: Path
) -> None:
    rng = random.Random(1)
    for number, case in enumerate(vectors["trees"]["nullifier"]):
        nullifiers = numbers(case["seed"])
        with open_state(tmp_path / str(number)) as state:
            for count, step in zip(case["counts"], case["steps"], strict=True):
                effect = tx_effect(rng, (), [next(nullifiers) for _ in range(count)], ())
                build(state, Content((effect,), ()), state.block_number + 1)
                assert_tree(state.view, 0, step)
            for low in case["low"]:
                key = as_bytes(low["key"])
                witness = state.view.low_nullifier_witness(key, state.block_number)
                assert (witness.key == key, witness.index) == (low["alreadyPresent"], int(low["index"]))
                assert witness.key == as_bytes(low["preimage"]["nullifier"])
                assert witness.next_key == as_bytes(low["preimage"]["nextKey"])
                assert witness.next_index == int(low["preimage"]["nextIndex"])
                assert witness.path == path_in(low["path"])


def test_written_public_data_has_the_roots_and_low_leaves_of_the_reference(
    vectors: dict[str, Any], tmp_path: Path
) -> None:
    rng = random.Random(1)
    for number, case in enumerate(vectors["trees"]["publicData"]):
        with open_state(tmp_path / str(number)) as state:
            for pairs, step in zip(case["writes"], case["steps"], strict=True):
                writes = [PublicDataWrite(as_bytes(slot), as_bytes(value)) for slot, value in pairs]
                effect = tx_effect(rng, (), [rng.randbytes(31).rjust(32, b"\0")], writes)
                build(state, Content((effect,), ()), state.block_number + 1)
                assert_tree(state.view, 2, step)
            for low in case["low"]:
                witness = state.view.public_data_witness(as_bytes(low["key"]), state.block_number)
                assert (witness.key == as_bytes(low["key"]), witness.index) == (
                    low["alreadyPresent"],
                    int(low["index"]),
                )
                assert witness.key == as_bytes(low["preimage"]["slot"])
                assert witness.value == as_bytes(low["preimage"]["value"])
                assert witness.next_key == as_bytes(low["preimage"]["nextKey"])
                assert witness.path == path_in(low["path"])
