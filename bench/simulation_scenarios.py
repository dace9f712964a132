"""Three transactions of the reference's own scenarios, with the state before each."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.mempool.recorded import made_up_proof
from tests.public_execution.memory_state import MemoryState
from tests.public_execution.vectors import (
    add_protocol_contracts,
    as_field,
    as_fields,
    globals_of,
    load,
    scenario_tx,
    settle,
    take_step,
)

from fastnode.kernels import encode
from fastnode.protocol.fields import field_texts
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_layout import USUAL
from fastnode.public_execution.executor import BlockExecutor, programs_of

Json = dict[str, Any]


class Scenario(NamedTuple):
    """A file of tests/data/avm, and the label of a transaction in it."""

    file: str
    label: str


SCENARIOS = {
    "token transfer": Scenario("scen_token", "Token/transfer_in_public/3"),
    "AMM swap": Scenario("scen_amm", "AMM/swap_exact_tokens_for_tokens/6"),
    "bulk storage test": Scenario("scen_bulk", "AvmTest/bulk_testing/0"),
}


def state_before(scenario: Scenario) -> tuple[Json, MemoryState, GlobalVariables]:
    """The step of the transaction, the state it runs on, and its block."""
    content = load(scenario.file)
    block = globals_of(content["globals"])
    state = MemoryState()
    add_protocol_contracts(state)
    for step in content["steps"]:
        if step["step"] != "tx":
            take_step(state, step)
        elif step["label"] == scenario.label:
            return step, state, block
        else:
            settle(state, BlockExecutor(state, block, programs=programs_of(FOUR)).execute(scenario_tx(step)))
    raise ValueError(f"{scenario.file} has no transaction {scenario.label}")


def calldata_key(step: Json) -> bytes:
    """What tells the transactions apart: the hash of their first calldata."""
    return as_field(step["calldata"][0][0])


def different_txs(step: Json, count: int) -> Iterator[Json]:
    """The transaction as wallets send it, each time with another hash: they differ in the time of expiration."""
    data = bytearray(zlib.decompress(base64.b64decode(step["data"])))
    proof = made_up_proof("bench")
    calldata = [
        {"values": field_texts(b"".join(as_fields(values))), "hash": "0x" + as_field(claimed).hex()}
        for claimed, values in step["calldata"]
    ]
    for number in range(count):
        data[USUAL.expiration : USUAL.head_bytes] = (1 << 40 | number).to_bytes(8, "big")
        yield {
            "data": encode.to_base64(bytes(data)).decode(),
            "chonkProof": proof,
            "contractClassLogFields": [],
            "publicFunctionCalldata": calldata,
        }
