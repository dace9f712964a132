"""``fastnode rpc``: what it sends, what it prints, how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.http_stand_in import HttpStandIn, answer
from tests.ports import free_port

from fastnode.cli.rpc import _parameter, coloured

TIMEOUT_S = 60.0


class Node(HttpStandIn):
    """Keeps the calls it gets and answers what it is told."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.keys: list[str | None] = []  # x-api-key of each call
        self.answer: bytes = b'{"jsonrpc":"2.0","id":1,"result":7}'
        self.status = 200
        super().__init__()

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.calls.append(json.loads(body))
        self.keys.append(handler.headers["x-api-key"])
        answer(handler, self.answer, self.status)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def rpc(*arguments: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastnode", "rpc", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={name: value for name, value in os.environ.items() if not name.startswith("FASTNODE_")} | environment,
    )


# ---- what is sent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("latest", "latest"),
        ("0x05", "0x05"),
        ('"7"', "7"),
        ('{"from": 1}', {"from": 1}),
        ('["0x01"]', ["0x01"]),
        ("null", None),
        ("true", True),
        ("", ""),
        ("-1", -1),
    ],
)
def test_a_parameter_is_json_if_it_can_be_and_text_otherwise(text: str, value: object) -> None:
    assert _parameter(text) == value


def test_a_parameter_may_stand_in_a_file_too_long_for_a_command_line(node: Node, tmp_path: Path) -> None:
    value = {"data": "A" * 200_000}
    file = tmp_path / "tx.json"
    file.write_text(json.dumps(value))
    result = rpc("isValidTx", f"@{file}", "true", "--url", node.url)
    assert (result.returncode, result.stderr) == (0, "")
    assert node.calls[0]["params"] == [value, True]


def test_a_parameter_may_come_from_standard_input(node: Node) -> None:
    result = rpc("getBlock", "@-", "--url", node.url, stdin='{"number": 7}')
    assert result.returncode == 0
    assert node.calls[0]["params"] == [{"number": 7}]


def test_a_file_that_cannot_be_read_is_named(node: Node, tmp_path: Path) -> None:
    result = rpc("isValidTx", f"@{tmp_path / 'none.json'}", "--url", node.url)
    assert (result.returncode, node.calls) == (1, [])
    assert result.stderr == f"fastnode: error: cannot read @{tmp_path / 'none.json'}: No such file or directory\n"


def test_a_file_without_json_is_named(node: Node, tmp_path: Path) -> None:
    (tmp_path / "tx.json").write_bytes(b"\xff{")
    result = rpc("isValidTx", f"@{tmp_path / 'tx.json'}", "--url", node.url)
    assert (result.returncode, node.calls) == (1, [])
    assert f"@{tmp_path / 'tx.json'} holds no JSON: " in result.stderr


def test_a_method_without_a_prefix_is_one_of_the_node(node: Node) -> None:
    done = rpc("getBlock", "42", "--url", node.url)
    assert (done.returncode, done.stdout) == (0, "7\n")
    assert node.calls == [{"jsonrpc": "2.0", "id": 1, "method": "node_getBlock", "params": [42]}]
    for name in ("nodeAdmin_getConfig", "rpc.discover"):
        rpc(name, "--url", node.url)
        assert node.calls[-1]["method"] == name


KEYS = {"FASTNODE_ADMIN_API_KEY": "of-the-admin-port", "FASTNODE_API_KEY": "of-a-client"}


def test_each_key_of_the_environment_is_sent_to_its_own_port_and_that_of_the_flag_to_either(node: Node) -> None:
    for method in ("nodeAdmin_getConfig", "getBlockNumber"):
        rpc(method, "--url", node.url, "--api-key", "of-the-flag", **KEYS)
        rpc(method, "--url", node.url, **KEYS)
        rpc(method, "--url", node.url)
    assert node.keys == ["of-the-flag", "of-the-admin-port", None, "of-the-flag", "of-a-client", None]


def test_the_address_of_the_node_may_stand_in_the_environment_and_needs_no_scheme(node: Node) -> None:
    bare = node.url.removeprefix("http://")
    assert rpc("getBlockNumber", "--url", bare).returncode == 0
    assert rpc("getBlockNumber", FASTNODE_URL=bare).returncode == 0
    assert rpc("nodeAdmin_getConfig", FASTNODE_ADMIN_URL=node.url, FASTNODE_URL="http://127.0.0.1:1").returncode == 0
    assert len(node.calls) == 3


def test_a_method_that_does_not_exist_brings_those_that_may_have_been_meant(node: Node) -> None:
    node.answer = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: node_x"}}'
    for method, meant in (
        ("getBlok", "did you mean node_getBlock or "),
        ("getConfig", "did you mean nodeAdmin_getConfig?"),
        ("node_getblocknumber", "did you mean node_getBlockNumber?"),
    ):
        assert meant in rpc(method, "--url", node.url).stderr
    for method in ("getBlock", "nothingLikeIt"):  # there is nothing better
        assert "did you mean" not in rpc(method, "--url", node.url).stderr


def test_an_answer_401_is_printed_as_the_error_it_is(node: Node) -> None:
    node.status = 401
    node.answer = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unauthorized"}}'
    done = rpc("nodeAdmin_getConfig", "--url", node.url)
    assert done.returncode == 1
    assert "Unauthorized" in done.stderr
    assert done.stderr.endswith("the key is taken from --api-key or FASTNODE_ADMIN_API_KEY\n")
    assert "is taken from" not in rpc("nodeAdmin_getConfig", "--url", node.url, "--api-key", "wrong").stderr


def test_a_time_to_wait_that_makes_no_sense_is_refused(node: Node) -> None:
    done = rpc("getBlockNumber", "--url", node.url, "--timeout", "-1")
    assert done.returncode == 2
    assert "--timeout" in done.stderr


def test_a_negative_number_is_a_parameter_and_no_option(node: Node) -> None:
    rpc("getBlocks", "-1", "5", "--url", node.url)
    assert node.calls[0]["params"] == [-1, 5]


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        done = rpc("getBlockNumber", "--url", node.url, http_proxy=address, HTTP_PROXY=address)
    assert done.returncode == 0


# ---- what is printed -----------------------------------------------------------------------------------


def test_a_result_is_printed_for_people(node: Node) -> None:
    node.answer = b'{"jsonrpc":"2.0","id":1,"result":{"number":7,"hash":"0x01"}}'
    assert rpc("getX", "--url", node.url).stdout == '{\n  "number": 7,\n  "hash": "0x01"\n}\n'


def test_colours_are_those_of_the_terminal_that_light_and_dark_ones_can_both_show() -> None:
    shown = io.StringIO()
    text = '{"a": [1, true, null, "x"]}'
    Console(file=shown, force_terminal=True, color_system="truecolor", width=80).print(coloured(text))
    codes = {int(code) for codes in re.findall(r"\x1b\[([0-9;]*)m", shown.getvalue()) for code in codes.split(";")}
    assert codes <= {0, 1, 32, 35}  # plain, bold, green, magenta
    assert {32, 35} <= codes
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).strip() == text


def test_an_error_goes_to_standard_error_with_exit_code_1(node: Node) -> None:
    node.answer = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: node_x"}}'
    for status in (200, 400):
        node.status = status
        done = rpc("x", "--url", node.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert json.loads(done.stderr) == {"code": -32601, "message": "Method not found: node_x"}


def test_nothing_found_is_said_and_is_no_error(node: Node) -> None:
    node.answer = b'{"jsonrpc":"2.0","id":1}'
    done = rpc("getBlock", "9999", "--url", node.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing found\n")


# ---- what goes wrong -------------------------------------------------------------------------------------


def failure(*arguments: object) -> str:
    done = rpc(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_a_node_that_does_not_run_is_named() -> None:
    port = free_port()
    line = failure("getBlock", "1", "--url", f"http://127.0.0.1:{port}")
    expected = f"no answer from http://127.0.0.1:{port}: cannot connect: Connection refused; is the node running?"
    assert line == f"fastnode: error: {expected}\n"


def test_a_node_that_does_not_answer_in_time_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert failure("getBlock", "1", "--url", url, "--timeout", "0.2").startswith(
            f"fastnode: error: no answer from {url}: "
        )


@pytest.mark.parametrize("url", ["file:///etc/hosts", "ftp://x", "http://", "nonsense.invalid"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    assert url in failure("getBlock", "1", "--url", url)


def test_a_server_of_another_kind_is_told_from_a_node(node: Node) -> None:
    node.answer, node.status = b"<html>", 404
    assert failure("x", "--url", node.url) == (
        f"fastnode: error: {node.url} is no JSON-RPC server: it answered HTTP 404\n"
    )
