"""Synthetic chains: accepted by a full import, true by an independent judge, the same every time."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from tests.world_state.verifier import PlainState, Verifier

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.source import BlockRecord, CheckpointRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.development import synthetic_chain
from fastnode.development.make_chain import make_chain
from fastnode.development.synthetic_chain import ChainShape, SyntheticChain, _sample_effects, write_synthetic_chain
from fastnode.development.synthetic_content import ContentGenerator
from fastnode.development.synthetic_text import body_text
from fastnode.errors import ChainFileError
from fastnode.protocol.blobs import tx_blob_fields
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.genesis import genesis_tips
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.world_state.state import WorldState

SHAPES = {
    "mixed": ChainShape(blocks=12, txs=4, nullifiers=6, vary=True, proposed=2, seed=3),
    "full txs": ChainShape(blocks=2, txs=2, nullifiers=64, note_hashes=64, writes=64, private_logs=64, l2_to_l1=8),
    "no txs": ChainShape(blocks=5, txs=0, l1_to_l2=0),
    "many messages": ChainShape(blocks=3, txs=1, nullifiers=1, l1_to_l2=1024, blocks_per_checkpoint=1),
    "only proposed": ChainShape(blocks=3, txs=1, proposed=3),
    "wallets": ChainShape(blocks=6, txs=4, wallets=True, commitments=False),
}
#: Little enough for the tests that only need some chain.
SMALL = ChainShape(blocks=4, txs=2, nullifiers=2, proposed=1)


def write(path: Path, shape: ChainShape) -> Path:
    write_synthetic_chain(path, shape)
    return path


@contextmanager
def imported(path: Path, directory: Path) -> Iterator[Ingestor]:
    """The chain of a file, with every check on."""
    with ArchiverStore.open(directory) as store, ChainFileSource(path) as source:
        adopt_chain_file(store, path)
        with WorldState(directory, source.genesis, rules=FOUR.trees) as state:
            ingestor = Ingestor(store, verification=Verification.FULL, state=state)
            try:
                import_chain_file(ingestor, path)
                yield ingestor
            finally:
                ingestor.close()


def blocks_of(path: Path) -> Iterator[tuple[L2Block, list[bytes] | None]]:
    """Every block, with the messages of its checkpoint if it is the first one of it."""
    with ChainFileSource(path) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord):
                messages: list[bytes] | None = list(record.l1_to_l2_messages)
                for block in record.published.checkpoint.blocks:
                    yield block, messages
                    messages = None
            elif isinstance(record, BlockRecord):
                first = record.block.index_within_checkpoint == 0
                yield record.block, list(record.l1_to_l2_messages) if first else None


# ---- true chains ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_synthetic_chain_passes_every_check_of_an_import(shape: ChainShape, tmp_path: Path) -> None:
    path = write(tmp_path / "chain.jsonl.gz", shape)
    with imported(path, tmp_path / "data") as ingestor:
        view = ingestor.view
        assert view.tip_number == shape.blocks
        assert view.tips.checkpointed.block.number == shape.blocks - shape.proposed
        bodies = [block.body.tx_effects for block, _ in blocks_of(path)]
        assert [view.block_info(number).tx_count for number in range(1, shape.blocks + 1)] == [*map(len, bodies)]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["mixed", "no txs", "many messages", "wallets"])
def test_its_roots_are_those_of_the_plain_trees(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "chain.jsonl", SHAPES[name])
    with ChainFileSource(path) as source:
        state = PlainState(Verifier(), source.genesis.prefilled_public_data)
        state.archive.append([source.genesis.block_hash])
        assert state.archive.root == source.genesis.archive_root
    for block, messages in blocks_of(path):
        state.apply(block.body.tx_effects, messages)
        state.archive.append([block.hash()])
        after = block.header.state
        claimed = {
            "nullifier": after.nullifier_tree,
            "note hash": after.note_hash_tree,
            "public data": after.public_data_tree,
            "message": after.l1_to_l2_message_tree,
            "archive": block.archive,
        }
        assert state.roots() == {
            tree: (snapshot.root, snapshot.next_available_leaf_index) for tree, snapshot in claimed.items()
        }


def test_a_shape_is_kept_exactly_unless_it_may_vary(tmp_path: Path) -> None:
    shape = ChainShape(blocks=3, txs=3, nullifiers=5, note_hashes=2, writes=1, l2_to_l1=2, l1_to_l2=3)
    for block, messages in blocks_of(write(tmp_path / "exact.jsonl", shape)):
        counts = {
            (len(e.nullifiers), len(e.note_hashes), len(e.public_data_writes), len(e.l2_to_l1_msgs))
            for e in block.body.tx_effects
        }
        assert (len(block.body.tx_effects), counts) == (3, {(5, 2, 1, 2)})
        assert messages is None or len(messages) == 3
    varied = ChainShape(blocks=20, txs=3, nullifiers=5, vary=True)
    effects = [e for block, _ in blocks_of(write(tmp_path / "varied.jsonl", varied)) for e in block.body.tx_effects]
    assert {len(effect.nullifiers) for effect in effects} == {1, 2, 3, 4, 5}
    assert {len(effect.note_hashes) for effect in effects} == {0, 1, 2, 3, 4, 5}


def test_full_blobs_end_a_checkpoint_early(tmp_path: Path) -> None:
    # Such a tx takes more than 64 + 64 + 2 * 64 + 64 * 17 = 1,344 fields: ten of them fill more than half a checkpoint.
    shape = ChainShape(blocks=3, txs=10, nullifiers=64, writes=64, private_logs=64, blocks_per_checkpoint=3)
    checkpoints = [block.checkpoint_number for block, _ in blocks_of(write(tmp_path / "chain.jsonl.gz", shape))]
    assert checkpoints == [1, 2, 3]


def test_some_writes_go_to_known_slots(tmp_path: Path) -> None:
    blocks = [block for block, _ in blocks_of(write(tmp_path / "chain.jsonl", ChainShape(blocks=10, txs=4, writes=4)))]
    slots = [w.leaf_slot for b in blocks for e in b.body.tx_effects for w in e.public_data_writes]
    assert 40 < len(set(slots)) < len(slots) == 160


def test_a_chain_of_wallets_has_txs_like_the_recorded_ones() -> None:
    content = ContentGenerator(ChainShape(blocks=1, txs=1000, wallets=True), _sample_effects())
    effects = [effect for _ in range(4) for effect in content.body().tx_effects]
    recorded = {_counts(effect) for effect in _sample_effects()}
    assert {_counts(effect) for effect in effects} <= recorded
    assert len({nullifier for effect in effects for nullifier in effect.nullifiers}) == sum(
        len(effect.nullifiers) for effect in effects
    )
    means = [sum(counts) / len(effects) for counts in zip(*map(_counts, effects), strict=True)]
    assert means[:3] == pytest.approx([2.6, 0.35, 2.0], rel=0.25)  # nullifiers, note hashes, writes
    published = sum(bool(effect.contract_class_logs) for effect in effects)
    assert 0 < published < len(effects) / 100


def _counts(effect: TxEffect) -> tuple[int, ...]:
    lists = (effect.nullifiers, effect.note_hashes, effect.public_data_writes, effect.private_logs, effect.public_logs)
    return (*map(len, lists), len(effect.l2_to_l1_msgs))


@pytest.mark.parametrize("wallets", [True, False])
def test_the_text_of_a_body_is_its_json(wallets: bool) -> None:
    shape = ChainShape(
        blocks=1, txs=600, nullifiers=3, private_logs=3, public_logs=3, vary=not wallets, wallets=wallets
    )
    body = ContentGenerator(shape, _sample_effects() if wallets else ()).body()
    assert any(effect.contract_class_logs for effect in body.tx_effects) == wallets
    fields = b"".join(map(tx_blob_fields, body.tx_effects))
    assert body_text(body, fields) == orjson.dumps(body.to_json())


def test_only_the_hashes_of_blobs_are_made_up_without_commitments() -> None:
    with_them, without = (
        [orjson.loads(b"{" + members + b"}") for _, members in SyntheticChain(shape, FOUR).lines()]
        for shape in (SMALL, replace(SMALL, commitments=False))
    )
    true, made_up = (lines[2]["published"]["checkpoint"] for lines in (with_them, without))
    assert [key for key in true["header"] if true["header"][key] != made_up["header"][key]] == ["blobsHash"]
    assert true["blocks"] == made_up["blocks"]


# ---- the same chain again -----------------------------------------------------------------------


def test_the_same_shape_gives_the_same_bytes_and_another_seed_another_chain(tmp_path: Path) -> None:
    first = write(tmp_path / "first.jsonl.gz", SMALL).read_bytes()
    assert write(tmp_path / "again.jsonl.gz", SMALL).read_bytes() == first
    other = ChainShape(blocks=4, txs=2, nullifiers=2, proposed=1, seed=2)
    lines = [orjson.loads(line) for line in gzip.decompress(first).splitlines()]
    others = [orjson.loads(line) for line in write(tmp_path / "other.jsonl", other).read_bytes().splitlines()]
    assert [line["kind"] for line in lines] == [line["kind"] for line in others]
    assert lines[0]["nodeInfo"]["rollupVersion"] != others[0]["nodeInfo"]["rollupVersion"]
    assert lines[1]["blockHash"] != others[1]["blockHash"]


def test_the_chain_is_the_same_whatever_runs_its_trees_grow_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shape = replace(SHAPES["mixed"], blocks=30, commitments=False)
    in_one = write(tmp_path / "one.jsonl", shape).read_bytes()
    monkeypatch.setattr(synthetic_chain, "RUN_BLOCKS", 4)
    assert write(tmp_path / "of four.jsonl", shape).read_bytes() == in_one
    monkeypatch.setattr(synthetic_chain, "RUN_TXS", 1)
    assert write(tmp_path / "of one.jsonl", shape).read_bytes() == in_one


def test_the_tips_stand_where_the_checkpoints_end(tmp_path: Path) -> None:
    shape = ChainShape(blocks=7, txs=1, blocks_per_checkpoint=1, proposed=1)
    with imported(write(tmp_path / "chain.jsonl", shape), tmp_path / "data") as ingestor:
        tips = ingestor.view.tips
        numbers = [tip.checkpoint.number for tip in (tips.checkpointed, tips.proven, tips.finalized)]
        assert (tips.proposed.number, numbers) == (7, [6, 4, 2])
    with imported(write(tmp_path / "new.jsonl", SHAPES["only proposed"]), tmp_path / "new") as ingestor:
        tip = ingestor.view.tips.checkpointed
        assert (tip.block, tip.checkpoint) == (ingestor.view.block_id(0), genesis_tips().checkpointed.checkpoint)


# ---- the import really checks -----------------------------------------------------------------------


def _changed(record: dict[str, Any], path: tuple[Any, ...]) -> None:
    """Turn the last digit of the value at ``path`` into another one."""
    for key in path[:-1]:
        record = record[key]
    text = record[path[-1]]
    record[path[-1]] = text[:-1] + ("1" if text[-1] == "0" else "0")


BLOCK = ("published", "checkpoint", "blocks", 0)
EFFECT = (*BLOCK, "body", "txEffects", 0)


@pytest.mark.parametrize(
    "path",
    [
        (*EFFECT, "nullifiers", 0),
        (*EFFECT, "noteHashes", 1),
        (*EFFECT, "publicDataWrites", 0, "value"),
        (*EFFECT, "l2ToL1Msgs", 0),
        (*EFFECT, "privateLogs", 0, "fields", 2),
        (*EFFECT, "txHash"),
        (*BLOCK, "archive", "root"),
        (*BLOCK, "header", "state", "partial", "nullifierTree", "root"),
        (*BLOCK, "header", "spongeBlobHash"),
        ("published", "checkpoint", "header", "epochOutHash"),
        ("published", "checkpoint", "header", "blockHeadersHash"),
        ("l1ToL2Messages", 0),
    ],
    ids=lambda path: str(path[-1] if isinstance(path[-1], str) else path[-2]),
)
def test_a_chain_with_one_digit_changed_is_refused(path: tuple[Any, ...], tmp_path: Path) -> None:
    lines = [orjson.loads(line) for line in write(tmp_path / "true.jsonl", SMALL).read_bytes().splitlines()]
    _changed(lines[2], path)
    false = tmp_path / "false.jsonl"
    false.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(ChainFileError, match="line 3"), imported(false, tmp_path / "data"):
        pass


# ---- shapes and the command ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ({"blocks": 0}, "blocks: 0 is not within 1 and"),
        ({"blocks": 1, "nullifiers": 0}, "nullifiers: 0 is not within 1 and 64"),
        ({"blocks": 1, "note_hashes": 65}, "note hashes: 65 is not within 0 and 64"),
        ({"blocks": 3, "proposed": 4}, "proposed blocks: 4 is not within 0 and 3"),
        ({"blocks": 1, "l1_to_l2": 1025}, "messages from L1: 1025 is not within 0 and 1024"),
        ({"blocks": 1, "txs": 200, "nullifiers": 64}, "blob fields fits no checkpoint: 24576 at most"),
    ],
)
def test_an_impossible_shape_is_refused_and_leaves_no_file(shape: dict[str, int], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        write_synthetic_chain(tmp_path / "chain.jsonl", ChainShape(**shape))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_the_chain_of_its_options(tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl.gz"
    options = ["--blocks", "4", "--txs", "2", "--nullifiers", "2", "--proposed", "1"]
    result = CliRunner().invoke(make_chain, [str(path), *options])
    assert result.exit_code == 0, result.output
    assert "4 blocks" in result.output
    assert path.read_bytes() == write(tmp_path / "expected.jsonl.gz", SMALL).read_bytes()
    refused = CliRunner().invoke(make_chain, [str(path), "--blocks", "1", "--nullifiers", "65"])
    assert refused.exit_code == 1
    assert "nullifiers: 65 is not within 1 and 64" in refused.output
