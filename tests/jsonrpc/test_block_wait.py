"""Waiting for a block that is not there yet: who waits, how long, and who does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from tests.conftest import PATIENCE_S

from fastnode.errors import ServerError, UnknownBlock
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import Method, MethodTable, common
from fastnode.view import Committed

BLOCK = b"\1" * 32


class Chain:
    """Knows block 1 as soon as a test says so."""

    def __init__(self) -> None:
        self.is_there = False

    def block_number_by_hash(self, block_hash: bytes) -> int | None:
        return 1 if self.is_there and block_hash == BLOCK else None


def ask(call: Any) -> bytes:
    if call.view.chain.block_number_by_hash(BLOCK) is None:
        raise UnknownBlock("Block hash not found", BLOCK)
    return b'"here"'


def tags(_call: Any) -> bytes:
    raise ServerError("Block not found in the node. This might indicate a reorg has occurred.")


METHODS = [
    Method(name="test_ask", summary="", handler=ask, **common("string")),
    Method(name="test_tags", summary="", handler=tags, **common("string")),
]


class Rig:
    def __init__(self, time_s: float, **options: Any) -> None:
        self.chain = Chain()
        self.view: Any = SimpleNamespace(chain=self.chain)
        self.block_wait = BlockWait(time_s, **options)
        self.engine = Engine(MethodTable(METHODS), lambda: self.view, block_wait=self.block_wait)

    async def call(self, *methods: str) -> Any:
        calls = [{"jsonrpc": "2.0", "id": index, "method": name} for index, name in enumerate(methods)]
        reply = self.engine.handle(json.dumps(calls if len(calls) > 1 else calls[0]).encode())
        answer = reply if isinstance(reply, Reply) else await reply
        assert answer.body is not None
        return json.loads(answer.text)

    def publish(self) -> None:
        self.chain.is_there = True
        self.block_wait.on_committed(Committed(self.view))


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_the_answer_comes_with_the_block() -> None:
    async def test() -> None:
        rig = Rig(10 * PATIENCE_S)
        waiting = asyncio.ensure_future(rig.call("test_ask"))
        await asyncio.sleep(0.02)
        assert rig.block_wait.waiting_count == 1
        await asyncio.to_thread(rig.publish)
        assert (await waiting)["result"] == "here"
        assert rig.block_wait.waiting_count == 0

    run(test)


def test_without_the_block_the_error_comes_when_the_time_is_up() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        answer = await Rig(0.05).call("test_ask")
        assert answer["error"]["message"] == "Block hash not found"
        assert round(loop.time() - begun, 3) >= 0.05  # whole milliseconds, of which the difference is a little less

    run(test)


def test_the_calls_of_a_batch_wait_no_longer_than_one() -> None:
    async def test() -> None:
        rig = Rig(0.1)
        waits: list[float] = []
        wait = rig.block_wait.wait

        async def noted_wait(block_hash: bytes, seconds: float) -> bool:
            waits.append(max(0.0, seconds))
            return await wait(block_hash, seconds)

        rig.block_wait.wait = noted_wait  # type: ignore[method-assign]
        answers = await rig.call(*["test_ask"] * 50)
        assert len(answers) == 50
        assert all("error" in answer for answer in answers)
        # The first waits for all of it: what it leaves is a clock's tick.
        assert waits[0] > 0.0
        assert sum(waits) < 2 * 0.1

    run(test)


def test_a_question_for_tags_never_waits() -> None:
    async def test() -> None:
        rig = Rig(10 * PATIENCE_S)
        assert "error" in await rig.call("test_tags")
        assert rig.block_wait.waiting_count == 0

    run(test)


def test_only_so_many_wait() -> None:
    async def test() -> None:
        rig = Rig(10 * PATIENCE_S, waiters_max=2)
        waiting = [asyncio.ensure_future(rig.call("test_ask")) for _ in range(2)]
        await asyncio.sleep(0.02)
        assert "error" in await rig.call("test_ask")
        rig.publish()
        assert [answer["result"] for answer in await asyncio.gather(*waiting)] == ["here", "here"]

    run(test)


def test_a_view_without_the_block_ends_no_wait() -> None:
    async def test() -> None:
        rig = Rig(0.2)
        waiting = asyncio.ensure_future(rig.call("test_ask"))
        while not rig.block_wait.waiting_count:
            await asyncio.sleep(0)
        rig.block_wait.on_committed(Committed(rig.view))
        for _ in range(10):  # turns of the loop, not a time: a wait that ended would be over by then
            await asyncio.sleep(0)
        assert not waiting.done()
        assert "error" in await waiting

    run(test)
