"""What a local network prints on a terminal, with the flags of other test chains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from tests.conftest import PATIENCE_S, clean_environment


def printed(*flags: str) -> tuple[str, dict[str, Any]]:
    """Text on the terminal from the start to the stop, and the line for programs."""
    terminal, slave = os.openpty()
    reader, writer = os.pipe()
    command = [sys.executable, "-P", "-m", "fastnode", *flags, f"--ready-fd={writer}"]
    free = ("--port=0", "--admin-port=0", "--metrics-port=0", "--disable-admin-api-key")
    text = b""
    with os.fdopen(reader, "rb") as ready, os.fdopen(terminal, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [*command, *free],
            pass_fds=(writer,),
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            env=clean_environment(),
        )
        os.close(writer)
        os.close(slave)
        try:
            facts: dict[str, Any] = json.loads(ready.readline())
            process.send_signal(signal.SIGINT)
            while True:
                try:
                    part = screen.read(65_536)
                except OSError:  # Linux: the last process that had it open has ended
                    break
                if not part:
                    break
                text += part
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()
    return text.decode(), facts


@pytest.mark.parametrize("command", [("local-network",), ("start", "--sandbox")], ids=" ".join)
def test_a_terminal_shows_where_the_network_is_and_its_accounts(command: tuple[str, ...]) -> None:
    text, facts = printed(*command, "--chain-id=1337")
    banner = text[text.index("fastnode local network, ready in ") :]
    assert facts["url"] in banner
    assert facts["adminUrl"] in banner
    assert "L1 chain id               1337" in banner
    for account in facts["accounts"]:
        line = next(line for line in banner.splitlines() if account["address"] in line)
        assert line.rstrip().endswith("fee juice")
    assert account["secret"] not in text
    assert [address for address in facts["contracts"].values() if address not in banner] == []


def test_a_silent_network_prints_nothing() -> None:
    assert printed("local-network", "--silent")[0] == ""
