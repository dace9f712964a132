"""``--prover-command``: the program gets all of an epoch in a file, and its proof is what it leaves."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests.building.test_recorded_chain import opened_builder
from tests.building.test_reexecution import Proposal

from fastnode.errors import EpochNotProven
from fastnode.protocol.fields import hex_text
from fastnode.proving.command import make_proof, render_inputs
from fastnode.proving.epoch import EpochInputs, collect
from fastnode.view import View

PROVER_ID = b"\x1d" * 20


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Makes the command of a program: ``inputs`` is what the file says, ``proof`` where the result belongs."""

    def make(body: str) -> str:
        file = tmp_path / "prove it.py"
        head = """
            import json, os, pathlib, sys, time
            inputs = json.loads(pathlib.Path(sys.argv[-2]).read_bytes())
            proof = pathlib.Path(sys.argv[-1])
        """
        file.write_text(textwrap.dedent(head) + textwrap.dedent(body))
        return shlex.join([sys.executable, str(file), "--a-flag"])

    return make


def prove(command: str, inputs: bytes = b"{}", *, is_stopped: Callable[[], bool] = lambda: False) -> bytes:
    return make_proof(command, inputs, is_stopped=is_stopped, environment={"PATH": os.environ["PATH"]})


def test_the_bytes_that_the_program_leaves_are_the_proof(program: Callable[[str], str]) -> None:
    command = program("proof.write_bytes(bytes.fromhex(inputs['previousArchive'][2:]) + bytes([inputs['epoch']]))")
    assert prove(command, orjson.dumps({"previousArchive": "0x0102", "epoch": 7})) == b"\1\2\7"


def test_the_program_is_told_no_secrets_of_the_environment(
    program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_PUBLISHER_PRIVATE_KEYS", "0x" + "5e" * 32)
    said = prove(program("proof.write_text(repr(dict(os.environ)))")).decode()
    assert "5e5e" not in said
    assert "PRIVATE" not in said


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("sys.exit('no GPU here')", "ended with exit code 1: no GPU here"),
        ("pass", "ended without leaving a proof"),
        ("proof.write_bytes(b'')", "left a proof of 0 bytes"),
        ("proof.write_bytes(bytes((1 << 24) + 1))", "left a proof of 16777217 bytes"),
    ],
)
def test_what_went_wrong_is_told_in_one_line(program: Callable[[str], str], body: str, reason: str) -> None:
    with pytest.raises(EpochNotProven, match=reason):
        prove(program(body))


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(EpochNotProven, match="--prover-command cannot be run: No such file"):
        prove("/no/such/prover")


def test_a_stopping_node_ends_the_program(program: Callable[[str], str], tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    command = program(f"pathlib.Path({str(begun)!r}).write_text(str(os.getpid())); time.sleep(600)")
    with pytest.raises(EpochNotProven, match="the node is stopping"):
        prove(command, is_stopped=lambda: begun.is_file() and begun.read_text() != "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


# ---- the inputs --------------------------------------------------------------------------------


class Epoch:
    """An epoch of the recorded chain."""

    def __init__(self, view: View) -> None:
        self.chain = view.chain
        newest = self.chain.checkpoint(self.chain.tips.checkpointed.checkpoint.number)
        assert newest is not None
        slot = orjson.loads(newest.header_json)["slotNumber"]
        self.number = int(slot) // self.chain.chain.epoch_duration
        numbers = self.chain.checkpoint_numbers_of_epoch(self.number)
        self.inputs: EpochInputs = collect(self.chain, self.number, numbers[0], numbers[-1])
        self.known: dict[bytes, bytes] = {}

    def render(self) -> dict[str, Any]:
        rollup: Any = SimpleNamespace(chain_id=31337, version=7, rollup=b"\7" * 20, circuits=None)
        text = render_inputs(self.inputs, self.chain, rollup, PROVER_ID, self.known.get)
        return orjson.loads(text)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def epoch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Epoch]:
    with opened_builder(tmp_path_factory.mktemp("chain")) as builder:
        Proposal(builder)
        yield Epoch(builder.view)


def test_the_file_has_all_that_a_proof_is_about(epoch: Epoch) -> None:
    record, inputs = epoch.render(), epoch.inputs
    assert (record["version"], record["epoch"]) == (1, epoch.number)
    assert (record["startCheckpoint"], record["endCheckpoint"]) == (inputs.start, inputs.end)
    assert record["proverId"] == hex_text(PROVER_ID)
    assert [item["number"] for item in record["checkpoints"]] == list(range(inputs.start, inputs.end + 1))
    newest = record["checkpoints"][-1]
    assert newest["archive"]["root"] == record["endArchive"] == hex_text(inputs.end_archive)
    assert newest["blocks"] == [block.to_json() for block in inputs.blocks[-1]]
    assert newest["header"]["totalManaUsed"]
    assert len(record["fees"]) == len(record["checkpoints"])
    assert set(record["batchedBlob"]) == {"z", "y", "commitment", "proof"}


def test_transactions_that_are_not_here_any_more_are_named(epoch: Epoch) -> None:
    effects = [effect for blocks in epoch.inputs.blocks for block in blocks for effect in block.body.tx_effects]
    assert effects
    first, *others = [effect.tx_hash for effect in effects]
    epoch.known = {first: b'{"sent": 1}'}
    record = epoch.render()
    assert record["txs"] == {hex_text(first): {"sent": 1}}
    assert record["missingTxs"] == [hex_text(item) for item in others]
