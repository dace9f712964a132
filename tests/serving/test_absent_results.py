"""The answer to a call that finds or returns nothing: ``"result":null``, or no member, as of the published node."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import NodeProcess

UNKNOWN = "0x" + "12" * 32
#: Calls whose results are absent: found on the fast path, in a thread, by a handler without a result.
ABSENT = [
    ("node_getBlock", [10**6]),
    ("node_getTxEffect", [UNKNOWN]),
    ("node_getNullifierMembershipWitness", [1, UNKNOWN]),
    ("node_getTxByHash", [UNKNOWN]),
    ("node_registerContractFunctionSignatures", [["transfer(Field)"]]),
]
FORMS = {"null": b',"result":null', "omit": b""}


def answers(port: int, body: bytes, **headers: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/", body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        content = response.read()
        return gzip.decompress(content) if response.headers["Content-Encoding"] == "gzip" else content
    finally:
        connection.close()


def calls_of(namespace: str) -> list[bytes]:
    return [
        orjson.dumps(
            {"jsonrpc": "2.0", "id": number, "method": method.replace("node_", f"{namespace}_"), "params": params}
        )
        for number, (method, params) in enumerate(ABSENT)
    ]


def expected(form: str) -> list[bytes]:
    return [b'{"jsonrpc":"2.0","id":%d%b}' % (number, FORMS[form]) for number in range(len(ABSENT))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("workers", [0, 2])
def test_an_absent_result_has_one_form_on_every_path(
    start_node: Callable[..., NodeProcess], short_chain: Path, form: str, workers: int
) -> None:
    node = start_node("--chain-file", short_chain, "--absent-results", form, "--workers", workers)
    node.wait_until_serving().wait_for_line("chain file loaded")
    for namespace in ("node", "aztec"):
        calls = calls_of(namespace)
        for _ in range(3):  # found, cached, cached
            assert [answers(node.port, call) for call in calls] == expected(form)
            assert [answers(node.port, b"[%b]" % call) for call in calls] == [b"[%b]" % each for each in expected(form)]
        # An escape in the method name takes the strict path.
        strict = [call.replace(b'"node_', b'"\\u006eode_').replace(b'"aztec_', b'"\\u0061ztec_') for call in calls]
        assert [answers(node.port, call) for call in strict] == expected(form)
        batch = b"[" + b",".join(calls * 10) + b"]"
        everything = b"[" + b",".join(expected(form) * 10) + b"]"
        for _ in range(2):
            assert answers(node.port, batch) == everything
            assert answers(node.port, batch, **{"Accept-Encoding": "gzip"}) == everything
    notification = b'{"jsonrpc":"2.0","method":"node_getBlock","params":[1000000]}'
    assert answers(node.port, notification) == b""
    assert answers(node.port, b"[%b,%b]" % (notification, calls_of("node")[0])) == b"[%b]" % expected(form)[0]
    assert node.stop() == 0


@pytest.mark.parametrize(("form", "is_nullable"), [("null", True), ("omit", False)])
def test_the_document_of_a_port_describes_its_form_of_an_absent_result(
    start_node: Callable[..., NodeProcess], short_chain: Path, form: str, is_nullable: bool
) -> None:
    node = start_node("--chain-file", short_chain, "--absent-results", form).wait_until_serving()
    document: Any = json.loads(answers(node.port, b'{"id":1,"method":"rpc.discover"}'))["result"]
    result = next(method["result"] for method in document["methods"] if method["name"] == "node_getTxEffect")
    assert result["required"] is is_nullable
    assert ("null" in [each.get("type") for each in result["schema"].get("anyOf", ())]) is is_nullable
    assert node.stop() == 0
