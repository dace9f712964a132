"""What goes to the followed node: transactions, questions; and what comes back with them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream

from fastnode.errors import Refused, UpstreamRejection, UpstreamUnavailable, UpstreamUndecided, UpstreamVerdict
from fastnode.mempool.forwarding import UpstreamQuestions, UpstreamTxSink
from fastnode.mempool.handover import Given
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.sources.upstreams import Upstream, Upstreams

SENT_HASH: Final = "0x" + "12" * 32
SENT: Final = json.dumps({"txHash": SENT_HASH}).encode()


@pytest.fixture
def upstreams(upstream: ScriptedUpstream) -> Iterator[Upstreams]:
    network = Network()
    quick = Patience(unavailable_s=0.01, unavailable_max_s=0.02)
    yield Upstreams([Upstream(upstream.url, network, patience=quick)])
    network.close()


def test_a_transaction_is_handed_on_as_it_is_stored(upstream: ScriptedUpstream, upstreams: Upstreams) -> None:
    sent: list[Any] = []
    upstream.answers["node_sendTx"] = sent.append
    assert upstreams.choose() is not None
    assert UpstreamTxSink(upstreams).forward(b'{"data":"AAEC"}')
    assert sent == [[{"data": "AAEC"}]]


def test_an_upstreams_verdict_is_the_answer_with_its_code_and_data(
    upstream: ScriptedUpstream, upstreams: Upstreams
) -> None:
    data = {"code": "LOW_PRIORITY_FEE", "minimumPriorityFee": "110", "txPriorityFee": "105"}

    def refuse(_: list[Any]) -> Any:
        raise RejectionError(-32702, "Tx does not meet minimum priority fee. Required: 110, got: 105", data)

    upstream.answers["node_sendTx"] = refuse
    assert upstreams.choose() is not None
    with pytest.raises(Refused, match="Required: 110, got: 105") as refusal:
        UpstreamTxSink(upstreams).forward(SENT)
    assert (refusal.value.code, refusal.value.data) == (-32702, data)
    upstream.answers["node_getTxReceipt"] = lambda asked: {"txHash": asked[0], "status": "dropped"}
    with pytest.raises(Refused, match="Required: 110, got: 105"):
        UpstreamTxSink(upstreams).forward(SENT)


class OtherNode:
    """Refuses, is away, or takes; and says what it has of what it was given, if it says anything."""

    def __init__(self, name: str, dice: random.Random, heard: list[tuple[str, str]]) -> None:
        self.name = name
        self.takes = dice.choice(["refuses", "refuses", "away", "takes"])
        self.has = dice.choice(["dropped", "dropped", "pending", "proposed", "success", "away", "senseless", "unsaid"])
        self._heard = heard

    def call(self, method: str, *parameters: Any) -> Any:
        self._heard.append((self.name, method))
        if method == "node_sendTx":
            if self.takes == "refuses":
                raise UpstreamRejection(-32702, f"{self.name} does not like it")
            if self.takes == "away":
                raise UpstreamUnavailable("it is away")
            return None
        assert (method, parameters) == ("node_getTxReceipt", (SENT_HASH,))
        if self.has == "away":
            raise UpstreamUnavailable("it is away")
        if self.has == "unsaid":
            raise UpstreamRejection(-32601, "Method not found")
        return None if self.has == "senseless" else {"txHash": SENT_HASH, "status": self.has}


@pytest.mark.parametrize("seed", range(300))
def test_what_an_upstream_has_in_a_block_or_waiting_is_not_refused(seed: int) -> None:
    """It may have come there another way, and this node may not have seen that block."""
    dice, heard = random.Random(seed), list[tuple[str, str]]()
    nodes = [OtherNode(f"node {number}", dice, heard) for number in range(dice.randrange(1, 4))]
    upstreams: Any = SimpleNamespace(healthy=lambda: list(nodes))
    sink = UpstreamTxSink(upstreams)
    asked = next((node for node in nodes if node.takes != "away"), None)
    has = {node.has for node in nodes}
    given: Given | type[Exception]
    if asked is None:
        given = Given.UNTAKEN
    elif asked.takes == "takes":
        given = Given.TAKEN
    elif has & {"pending", "proposed", "success"}:
        given = Given.KNOWN
    else:
        given = UpstreamUndecided if "away" in has else UpstreamVerdict
    if not isinstance(given, Given):
        assert asked is not None
        with pytest.raises(given, match=f"{asked.name} does not like it"):
            sink.forward(SENT)
    else:
        assert sink.give(SENT) is given
        assert sink.forward(SENT) == (given is not Given.UNTAKEN)
    questions = [name for name, method in heard if method == "node_getTxReceipt"]
    if asked is None or asked.takes == "takes":
        assert questions == []
    else:
        assert questions[0] == asked.name, "it knows best what it has refused"


def test_without_an_upstream_that_answers_nothing_is_taken(upstream: ScriptedUpstream, upstreams: Upstreams) -> None:
    assert not UpstreamTxSink(upstreams).forward(b"{}"), "none has been found to answer yet"
    assert upstreams.choose() is not None
    upstream.stop()
    assert not UpstreamTxSink(upstreams).forward(b"{}")


def test_an_answer_is_kept_for_a_moment(upstream: ScriptedUpstream, upstreams: Upstreams) -> None:
    upstream.answers["node_getValidatorsStats"] = lambda _: {"stats": {}, "slotWindow": 7}
    assert upstreams.choose() is not None
    questions = UpstreamQuestions(upstreams)
    for _ in range(3):
        assert questions.ask_cached("node_getValidatorsStats", [], 60)["slotWindow"] == 7
    assert upstream.requests.count("node_getValidatorsStats") == 1


def test_a_question_that_no_upstream_answers_says_so(upstream: ScriptedUpstream, upstreams: Upstreams) -> None:
    with pytest.raises(Refused, match="No upstream answers"):
        UpstreamQuestions(upstreams).ask("node_getValidatorsStats", [])


# ---- through a whole node -------------------------------------------------------------------------


def test_a_node_relays_fees_statistics_and_waits_for_blocks(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    from fastnode.app.process.node import Node
    from fastnode.config.settings import Settings

    upstream.answers["node_getValidatorsStats"] = lambda _: {"stats": {}, "slotWindow": 7}
    upstream.answers["node_getEncodedEnr"] = lambda _: "enr:-abc"

    async def ask(node: Node, method: str, *parameters: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        reply = node.public.engine.handle(body)
        if asyncio.iscoroutine(reply):
            reply = await reply
        return json.loads(reply.text)  # type: ignore[union-attr]

    async def until(node: Node, method: str, wanted: Any) -> None:
        deadline = time.monotonic() + 60
        while (answer := await ask(node, method)).get("result") != wanted:
            assert time.monotonic() < deadline, answer
            await asyncio.sleep(0.01)

    async def run() -> None:
        settings = Settings(
            upstream_url=(upstream.url,),
            data_directory=tmp_path / "data",
            port=0,
            admin_port=0,
            archiver_polling_interval_ms=10,
            rpc_block_wait_ms=20_000,
            disable_admin_api_key=True,
        )
        node = await Node.start(settings)
        try:
            await until(node, "node_getBlockNumber", chain.tip)
            await until(node, "node_getCurrentMinFees", {"feePerDaGas": "0", "feePerL2Gas": "12345"})
            await until(node, "node_isReady", True)
            assert (await ask(node, "node_getValidatorsStats"))["result"]["slotWindow"] == 7
            assert (await ask(node, "node_getEncodedEnr"))["result"] == "enr:-abc"
            await wait_for_a_block(node)
        finally:
            await node.stop()

    async def wait_for_a_block(node: Node) -> None:
        upstream.lock.acquire()
        try:
            chain.propose()
            tip = "0x" + chain.block_id(chain.tip).hash.hex()
            question = asyncio.ensure_future(ask(node, "node_getPublicStorageAt", tip, "0x" + "00" * 32, "0x01"))
            await asyncio.sleep(0.1)
            assert not question.done()
        finally:
            upstream.lock.release()
        assert (await question)["result"] == "0x" + "00" * 32

    asyncio.run(run())
