"""What another server's answer may take in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from fastnode.errors import AnswerTooLarge, UpstreamFault
from fastnode.outgoing.client import RpcClient, _memory_of
from fastnode.outgoing.network import Answer, ClientLimits, ahead_of_use

MIB = 1 << 20


class Upstream:
    """A network whose other end says the same to everything."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def post(self, url: str, body: bytes, limits: ClientLimits, headers: Mapping[str, str] | None = None) -> Answer:
        return Answer(200, self.body)


def ask(result: bytes, memory_bytes_max: int) -> Any:
    network: Any = Upstream(b'{"jsonrpc":"2.0","id":0,"result":%b}' % result)
    client = RpcClient("http://upstream", network, ClientLimits(memory_bytes_max=memory_bytes_max))
    return client.ask([("node_getBlocks", [1, 50])]).results()[0]


def test_an_answer_of_hex_is_read_and_one_of_containers_refused() -> None:
    """Of one length: texts take about three times their bytes, empty arrays thirty times."""
    texts = orjson.dumps([f"0x{number:064x}" for number in range(30_000)])
    arrays = b"[" + b"[]," * (len(texts) // 3) + b"0]"
    assert len(ask(texts, 16 * MIB)) == 30_000
    with pytest.raises(UpstreamFault, match=rf"would take more than {16 * MIB} bytes to read"):
        ask(arrays, 16 * MIB)


def test_an_answer_that_is_fetched_ahead_of_its_use_may_take_less() -> None:
    texts = orjson.dumps([f"0x{number:064x}" for number in range(150_000)])
    with ahead_of_use(), pytest.raises(AnswerTooLarge, match=rf"would take more than {32 * MIB} bytes to read"):
        ask(texts, 256 * MIB)
    assert len(ask(texts, 256 * MIB)) == 150_000


#: Says how many bytes the process grew by, at most, while it read the text that ``sys.argv[1]`` makes.
GROWTH = """
import sys, orjson
text = eval(sys.argv[1])
def resident(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) * 1024
before = resident("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
value = orjson.loads(text)
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize(
    "text",
    [
        'b"[" + b"[]," * 300_000 + b"0]"',
        'b"[" + b"{}," * 300_000 + b"0]"',
        """b"[" + b'{"a":0},' * 200_000 + b"0]" """,
        """b"[" + b'{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0},' * 50_000 + b"0]" """,
        'b"[" + b"0.5," * 500_000 + b"0]"',
        """b"[" + b'"ab",' * 400_000 + b"0]" """,
        """b"{" + b",".join(b'"%x":0' % number for number in range(200_000)) + b"}" """,
        """b'["' + "\\U0001f600".encode() + b"a" * 4_000_000 + b'"]' """,
        """b'["\\\\ud83d\\\\ude00' + b"a" * 4_000_000 + b'"]' """,
    ],
    ids=["arrays", "objects", "members", "six members", "numbers", "texts", "names", "wide", "escaped"],
)
def test_no_json_takes_more_than_it_is_taken_to_need(text: str) -> None:
    found = subprocess.run([sys.executable, "-c", GROWTH, text], capture_output=True, text=True, check=True)
    body: bytes = eval(text)
    assert int(found.stdout) <= _memory_of(body) - len(body) + MIB
