"""Long bodies that are read on the event loop, because there is little in them but text."""

from __future__ import annotations

import orjson
import pytest

from fastnode.jsonrpc.engine import PLAIN_BYTES_MAX, PLAIN_VALUES_MAX, READ_ON_LOOP_BYTES_MAX, Engine, Reply
from fastnode.jsonrpc.json_text import NAME_LENGTH_MAX
from fastnode.jsonrpc.methods import MethodTable


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


class NotedNames(dict[str, None]):
    """Notes how long the names are that it is asked for."""

    def get(self, name: str, default: None = None) -> None:
        self.asked = len(name)


def test_of_a_name_of_a_megabyte_no_more_is_looked_up_than_names_have() -> None:
    engine = Engine(MethodTable(()), lambda: None)
    names = NotedNames()
    engine._methods = names  # type: ignore[assignment]
    reply = engine.handle(orjson.dumps({"id": 1, "method": "x" * 200_000}))
    assert isinstance(reply, Reply)
    assert b'"Method not found: xxx' in reply.text
    assert names.asked == NAME_LENGTH_MAX
