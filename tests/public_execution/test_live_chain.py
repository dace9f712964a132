"""A network whose transactions were made to fail in every phase: revert codes 0 to 3, and simulations of tricky ones.
And one with all that its own set-up sent from block 1 on: classes, instances and the first calls.

``live_chain.jsonl.xz`` and ``setup_chain.jsonl.xz`` are chain files; ``live_answers.jsonl.xz`` and
``setup_answers.jsonl.xz`` have the transactions without their proofs, and simulations with the block that they were
asked for at.
"""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.mempool.recorded import DATA, made_up_proof
from tests.public_execution.test_recorded_chain import executor_of
from tests.public_execution.test_simulation import simulated

from fastnode.chain_data import ChainData
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View


def _tx(value: dict[str, Any]) -> Tx:
    return Tx.from_json(value | {"chonkProof": made_up_proof("live")}, FOUR)


@contextmanager
def opened(name: str, directory: Path) -> Iterator[View]:
    chain_file = directory / "chain.jsonl"
    chain_file.write_bytes(lzma.decompress((DATA / f"{name}_chain.jsonl.xz").read_bytes()))
    with ChainData.open(directory / "data") as data:
        adopt_chain_file(data.store, chain_file)
        ingestor = data.open_ingestor(verify=True)
        import_chain_file(ingestor, chain_file)
        assert data.state is not None
        yield View(ingestor.view, data.state.view)


def recorded_answers(name: str) -> list[dict[str, Any]]:
    lines = lzma.decompress((DATA / f"{name}_answers.jsonl.xz").read_bytes()).splitlines()
    return [orjson.loads(line) for line in lines]


@pytest.fixture(scope="module")
def live_view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    with opened("live", tmp_path_factory.mktemp("live_chain")) as view:
        yield view


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return recorded_answers("live")


def revert_codes(view: View, answers: list[dict[str, Any]]) -> Counter[int]:
    """Execute each transaction again and compare its effect; how often each revert code came out."""
    txs = {row["tx"]["txHash"]: row["tx"] for row in answers if "tx" in row}
    codes: Counter[int] = Counter()
    for number in range(1, view.chain.tip_number + 1):
        block = view.chain.load_block(number)
        assert block is not None
        executor = executor_of(view, block)
        for effect in block.body.tx_effects:
            value = txs.get(hex_text(effect.tx_hash))
            if value is not None:
                assert executor.execute(ExecutableTx.of(_tx(value))).effect == effect, number
                codes[effect.revert_code] += 1
    assert sum(codes.values()) == len(txs)
    return codes


def test_every_tx_of_the_live_chain_has_its_effect(live_view: View, answers: list[dict[str, Any]]) -> None:
    codes = revert_codes(live_view, answers)
    assert sum(codes.values()) == 22
    assert set(codes) == {0, 1, 2, 3}


def test_every_tx_of_a_networks_set_up_has_its_effect(tmp_path: Path) -> None:
    with opened("setup", tmp_path) as view:
        assert view.chain.tip_number == 5
        assert revert_codes(view, recorded_answers("setup")) == {0: 5}


def test_every_simulation_of_the_live_chain_has_its_answer(live_view: View, answers: list[dict[str, Any]]) -> None:
    rows = [row for row in answers if "params" in row]
    block = GlobalVariables.from_json(next(row["result"]["globalVariables"] for row in rows if "result" in row))
    for row in rows:
        value, skip = (*row["params"], False)[:2]
        if "result" in row:
            block = GlobalVariables.from_json(row["result"]["globalVariables"])
            wanted = {"result": row["result"]}
        else:
            wanted = {"error": row["error"]["message"]}
        assert block.block_number == row["at"] + 1
        assert simulated(live_view, _tx(value), block, skip_fee_enforcement=bool(skip)) == wanted, row["note"]
    assert len(rows) == 21
