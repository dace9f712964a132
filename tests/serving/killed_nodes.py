"""Local networks that are killed and begun again, of one data directory and port; each begins in half a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.conftest import PATIENCE_S
from tests.ports import free_port

from fastnode.client import Client
from fastnode.errors import ClientError
from fastnode.testing import call_url

__all__ = ["Nodes"]

#: Forks nodes that have loaded everything already; a line for each.
_FORKING = """
import faulthandler, gc, os, signal, sys
import fastnode.app.process.process, fastnode.app.process.service, fastnode.serving.push, fastnode.local_network.network
from fastnode.cli import main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
gc.freeze()
for _ in sys.stdin:
    pid = os.fork()
    if not pid:
        os.setsid()
        faulthandler.register(signal.SIGUSR1)
        sys.argv[0] = "fastnode"
        sys.exit(main())
    print(pid, flush=True)
"""
#: A start takes a third of a second of processor time, which at the lowest priority beside others is a minute.
BEGINS_WITHIN_S = 5 * PATIENCE_S


class Nodes:
    """One local network after the other, of one data directory and port."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        flags = [
            "start",
            "--local-network",
            "--seed=test",
            f"--data-directory={directory / 'data'}",
            "--log-level=error",
        ]
        flags += [
            f"--port={self.port}",
            "--admin-port=0",
            "--disable-admin-api-key",
            "--rpc-max-connections-per-address=0",
        ]
        command = [sys.executable, "-c", _FORKING, *flags]
        self._log_path = directory / "log"
        self._log = self._log_path.open("wb")
        self._forking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)
        self.pid = 0

    def start(self) -> None:
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        self._forking.stdin.write(b"\n")
        self._forking.stdin.flush()
        self.pid = int(self._forking.stdout.readline())
        deadline = time.monotonic() + BEGINS_WITHIN_S
        while True:
            with suppress(ClientError), Client(self.url, timeout_s=2.0, retries=0) as client:
                client.get_block_number()
                return
            assert self._is_there(), f"the node has ended: {self._log_path.read_text()}"
            assert time.monotonic() < deadline, self._silent()
            time.sleep(0.02)

    def _is_there(self) -> bool:
        with suppress(ProcessLookupError):
            os.kill(self.pid, 0)
            return True
        return False

    def _silent(self) -> str:
        """The log of a node that does not answer, with the stacks of its threads."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(1.0)
        return f"the node does not begin: {self._log_path.read_text()}"

    def kill(self) -> None:
        """Kill the node, and wait until it is gone: till then it holds its port, for as long as a write takes."""
        if not self.pid:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        while self._is_there():
            assert time.monotonic() < deadline, f"process {self.pid} was killed and is still there"
            time.sleep(0.002)
        self.pid = 0

    def call(self, method: str, *params: object) -> object:
        return call_url(self.url, method, params)

    def close(self) -> None:
        self.kill()
        assert self._forking.stdin is not None
        self._forking.stdin.close()
        self._forking.wait(PATIENCE_S)
        assert self._forking.stdout is not None
        self._forking.stdout.close()
        self._log.close()
