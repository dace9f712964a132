"""A new node takes the port of an old one over, and nobody is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from tests.conftest import NodeProcess
from tests.workers.nodes import Client, Workers, until


class Visitor(threading.Thread):
    """Connects, asks once and leaves, again and again."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._stop_asked = threading.Event()
        self.tips: list[int] = []
        self.failures: list[str] = []

    def run(self) -> None:
        while not self._stop_asked.is_set():
            client = Client(self._port)
            try:
                self.tips.append(client.result("node_getBlockNumber"))
            except Exception as error:  # noqa: BLE001 - told by the test
                self.failures.append(repr(error))
            finally:
                client.close()

    def leave(self) -> None:
        self._stop_asked.set()
        self.join()


def test_a_new_node_takes_a_port_over_and_the_old_one_drains(
    start_node: Callable[..., NodeProcess], short_chain: Path, sample_chain: Path, tmp_path: Path
) -> None:
    old = Workers(start_node("--workers=2", f"--chain-file={short_chain}", f"--data-directory={tmp_path / 'old'}"))
    old.node.wait_for_line("chain file loaded")
    visitor = Visitor(old.node.port)
    visitor.start()
    try:
        new = Workers(
            start_node(
                "--workers=2",
                "--take-over-port",
                f"--port={old.node.port}",
                f"--chain-file={sample_chain}",
                f"--data-directory={tmp_path / 'new'}",
            )
        )
        new.node.wait_for_line("chain file loaded")
        until(lambda: 106 in visitor.tips[-20:], "nobody is sent to the new node")
        assert old.node.stop() == 0
        seen = len(visitor.tips)
        until(lambda: len(visitor.tips) > seen + 30, "nobody is answered")
        assert set(visitor.tips[seen + 1 :]) == {106}
    finally:
        visitor.leave()
    # The system resets what the old node had not accepted when it closed its sockets, unless it is told otherwise.
    assert len(visitor.failures) <= 2, visitor.failures
    assert not any("Refused" in failure for failure in visitor.failures)
    assert new.node.stop() == 0
