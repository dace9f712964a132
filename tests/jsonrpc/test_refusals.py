"""Errors of rooms below the API, as the client gets them."""

from __future__ import annotations

import pytest

from fastnode.errors import (
    BlockUnavailable,
    DatabaseFull,
    DatabaseUnreadable,
    DatabaseUnwritable,
    DecodeError,
    Refused,
    ServerError,
    StartError,
    UpstreamVerdict,
    ValueRefused,
)
from fastnode.jsonrpc.refusals import answer_to


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (Refused("no", data={"code": "BUSY"}), -32000, {"code": "BUSY"}),
        (BlockUnavailable("Block 3 is below the oldest"), -32000, None),
        (ValueRefused("seconds must not be negative"), -32602, None),
        (UpstreamVerdict("they refuse", code=-32702, data=[1]), -32702, [1]),
        (DatabaseFull("x"), -32000, {"code": "DISK_FULL"}),
        (DatabaseUnwritable("x"), -32000, {"code": "DISK_FAILS"}),
        (DatabaseUnreadable("x"), -32000, {"code": "DATABASE_DAMAGED"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_kind_of_refusal_has_its_code(error: Exception, code: int, data: object) -> None:
    answer = answer_to(error)
    assert answer is not None
    assert (answer.code, answer.data) == (code, data)
    if isinstance(error, Refused):
        assert answer.message == error.message


def test_an_error_of_the_api_stays_as_it_is() -> None:
    error = ServerError("said already")
    assert answer_to(error) is error


@pytest.mark.parametrize("error", [StartError("x"), DecodeError("x"), KeyError("x"), OSError("x"), None], ids=repr)
def test_faults_of_the_node_have_no_text_for_clients(error: Exception | None) -> None:
    assert answer_to(error) is None
