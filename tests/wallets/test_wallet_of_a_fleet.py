"""The published wallet against a fleet: a local network publishes, nginx stands before three replicas, and one of them
is killed while the wallet works.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import server as server
from tests.bus.nats import PATIENCE_S, NatsServer
from tests.ports import free_port
from tests.wallets.test_published_wallet import HERE, run
from tests.wallets.test_published_wallet import packages as packages

from fastnode.testing import RunningNetwork, local_network

StartNode = Callable[..., Any]
REPLICAS = 3
#: The replica goes when so many blocks are there: in the middle of the wallet's work.
KILLED_AT_BLOCK = 8


def nginx_of(directory: Path, urls: list[str]) -> tuple[list[str], str]:
    """Its command, and the URL that it listens on.  It keeps all in memory, as its workers may have another user."""
    port = free_port()
    servers = "\n".join(f"server {url.removeprefix('http://')} max_fails=1 fail_timeout=2s;" for url in urls)
    file = directory / "nginx.conf"
    file.write_text(
        f"daemon off; pid {directory}/nginx.pid; error_log {directory}/nginx.log;\n"
        f"events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n"
        f"fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;\n"
        f"upstream replicas {{ {servers} }}\n"
        f"server {{ listen 127.0.0.1:{port}; client_max_body_size 8m;\n"
        f"client_body_buffer_size 8m; proxy_max_temp_file_size 0;\n"
        f"location / {{ proxy_pass http://replicas; proxy_next_upstream error timeout non_idempotent; }} }} }}\n"
    )
    return ["nginx", "-c", str(file)], f"http://127.0.0.1:{port}"


@pytest.fixture
def network(server: NatsServer) -> Iterator[RunningNetwork]:
    with local_network(f"--bus-url={server.url}", "--bus-publish", "--bus-name=publisher") as network:
        yield network


def test_a_wallet_behind_a_balancer_loses_nothing_when_a_replica_is_killed(
    packages: Path, server: NatsServer, network: RunningNetwork, start_node: StartNode, tmp_path: Path
) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not here")
    replicas = [
        start_node(
            "--bus-url", server.url, "--bus-name", f"replica-{number}", "--data-directory", tmp_path / f"{number}"
        ).wait_until_serving()
        for number in range(REPLICAS)
    ]
    deadline = time.monotonic() + PATIENCE_S
    while any(node.call("node_getBlockNumber")["result"] < network.block_number for node in replicas):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed: list[int] = []

    def kill_one() -> None:
        while not is_done.wait(0.2):
            if network.block_number >= KILLED_AT_BLOCK:
                replicas[0].stop(signal.SIGKILL)
                killed.append(network.block_number)
                return

    command, url = nginx_of(tmp_path, [node.url for node in replicas])
    is_done = threading.Event()
    with ExitStack() as stack:
        nginx = subprocess.Popen(command)
        stack.callback(nginx.wait)
        stack.callback(nginx.terminate)
        killing = threading.Thread(target=kill_one)
        killing.start()
        stack.callback(killing.join)
        stack.callback(is_done.set)
        scratch = tmp_path / "wallet"
        scratch.mkdir()
        printed = run(packages, (HERE / "scenario.mjs").read_text(), url, scratch)
    steps = {facts.pop("step"): facts for facts in map(json.loads, _steps(printed))}
    assert killed
    assert steps["public"] == {"alice": 700, "bob": 300}
    assert steps["private"] == {"alice": 780, "bob": 220}
    assert steps["receipt"]["result"] == "success"
    assert steps["receipt"]["block"] == network.block_number
    for node in replicas[1:]:
        assert node.call("node_getPendingTxCount")["result"] == network.call("node_getPendingTxCount")
        assert node.call("node_getL2Tips")["result"] == network.call("node_getL2Tips")


def _steps(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith('{"step"')]
