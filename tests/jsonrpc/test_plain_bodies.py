"""Long bodies that are read on the event loop, because there is little in them but text."""

from __future__ import annotations

import orjson
import pytest

from fastnode.http.allowance import Allowance, Party
from fastnode.jsonrpc.engine import (
    NAME_LENGTH_MAX,
    PLAIN_BYTES_MAX,
    PLAIN_VALUES_MAX,
    READ_ON_LOOP_BYTES_MAX,
    Engine,
    Reply,
)
from fastnode.jsonrpc.methods import BoundMethod, MethodTable, Outcomes


def body(*params: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_no", "params": list(params)})


@pytest.fixture
def engine() -> Engine:
    return Engine(MethodTable(()), lambda: None)


def test_a_long_text_is_read_at_once(engine: Engine) -> None:
    assert isinstance(engine.handle(body("x" * 2 * READ_ON_LOOP_BYTES_MAX)), Reply)


@pytest.mark.parametrize(
    "long",
    [
        body("x" * PLAIN_BYTES_MAX),
        body("\\" * READ_ON_LOOP_BYTES_MAX),
        body(["x" * 60] * PLAIN_VALUES_MAX),
    ],
    ids=["long", "with escapes", "many values"],
)
def test_what_takes_its_time_is_read_in_a_thread(engine: Engine, long: bytes) -> None:
    assert len(long) > READ_ON_LOOP_BYTES_MAX
    pending = engine.handle(long)
    assert not isinstance(pending, Reply)
    pending.close()


class NotedTable(MethodTable):
    """Notes how long the names are that it is asked for."""

    __slots__ = ("asked",)

    def get(self, name: str) -> BoundMethod | None:
        self.asked = len(name)
        return super().get(name)


def test_of_a_name_of_a_megabyte_no_more_is_looked_up_than_names_have() -> None:
    table = NotedTable(())
    reply = Engine(table, lambda: None).answer_call("x" * 1_000_000, [], b"1", Outcomes(None, []), Allowance(Party()))
    assert isinstance(reply, Reply)
    assert b'"Method not found: xxx' in reply.text
    assert table.asked == NAME_LENGTH_MAX
