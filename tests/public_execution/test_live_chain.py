"""A network whose transactions were made to fail in every phase: revert codes 0 to 3, and simulations of tricky ones.

``live_chain.jsonl.xz`` is a chain file; ``live_answers.jsonl.xz`` has the transactions without their proofs, and
simulations with the block that they were asked for at.
"""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.mempool.recorded import DATA, made_up_proof
from tests.public_execution.test_recorded_chain import executor_of
from tests.public_execution.test_simulation import simulated

from fastnode.archiver.chain_import import adopt_chain_file, import_chain_file
from fastnode.chain_data import ChainData
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.rpc.view import View


def _tx(value: dict[str, Any]) -> Tx:
    return Tx.from_json(value | {"chonkProof": made_up_proof("live")})


@pytest.fixture(scope="module")
def live_view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    directory: Path = tmp_path_factory.mktemp("live_chain")
    chain_file = directory / "chain.jsonl"
    chain_file.write_bytes(lzma.decompress((DATA / "live_chain.jsonl.xz").read_bytes()))
    with ChainData.open(directory / "data") as data:
        adopt_chain_file(data.store, chain_file)
        ingestor = data.open_ingestor(verify=True)
        import_chain_file(ingestor, chain_file)
        assert data.state is not None
        yield View(ingestor.view, data.state.view)


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in lzma.decompress((DATA / "live_answers.jsonl.xz").read_bytes()).splitlines()]


def test_every_tx_of_the_live_chain_has_its_effect(live_view: View, answers: list[dict[str, Any]]) -> None:
    txs = {row["tx"]["txHash"]: row["tx"] for row in answers if "tx" in row}
    codes: Counter[int] = Counter()
    for number in range(1, live_view.chain.tip_number + 1):
        block = live_view.chain.load_block(number)
        assert block is not None
        executor = executor_of(live_view, block)
        for effect in block.body.tx_effects:
            value = txs.get(hex_text(effect.tx_hash))
            if value is not None:
                assert executor.execute(ExecutableTx.of(_tx(value))).effect == effect, number
                codes[effect.revert_code] += 1
    assert sum(codes.values()) == len(txs) == 22
    assert set(codes) == {0, 1, 2, 3}


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
