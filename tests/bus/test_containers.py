"""The fleet of containers, its services run as processes with the settings, commands and files that they have there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.bus.nats import PATIENCE_S, program
from tests.conftest import clean_environment
from tests.ports import free_ports
from tests.sources.conftest import chain as chain
from tests.sources.conftest import upstream as upstream
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def services() -> dict[str, Any]:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose-fleet.yaml").read_text())
    return compose["services"]  # type: ignore[no-any-return]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a program that ends with the test."""
    with ExitStack() as stack:

        def run(*command: object) -> subprocess.Popen[bytes]:
            log = stack.enter_context((tmp_path / f"{Path(str(command[0])).name}.log").open("wb"))
            process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
            stack.callback(process.wait, PATIENCE_S)
            stack.callback(process.terminate)
            return process

        yield run


def nginx_file(directory: Path, text: str, addresses: dict[str, str], port: int) -> Path:
    """A main file around the site of the fleet; the names of its containers are ports of this machine."""
    for name, address in addresses.items():
        text = text.replace(f"server {name}:8080", f"server {address}")
    assert not re.search(r"server \w+-\d:8080", text)
    paths = " ".join(f"{each}_temp_path {directory}/{each};" for each in ("client_body", "proxy", "fastcgi"))
    paths += f" uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;"
    file = directory / "nginx.conf"
    file.write_text(
        f"daemon off; pid {directory}/nginx.pid; error_log {directory}/nginx.log;\nevents {{}}\n"
        f"http {{ access_log off; {paths}\n{text.replace('listen 8080', f'listen 127.0.0.1:{port}')}\n}}\n"
    )
    return file


def ask(url: str, method: str, *parameters: object) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.loads(response.read())["result"]


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_publishers_and_three_replicas_of_the_compose_file_serve_through_its_nginx(
    services: dict[str, Any],
    running: Callable[..., subprocess.Popen[bytes]],
    start_node: Callable[..., Any],
    chain: MadeChain,
    upstream: ScriptedUpstream,
    tmp_path: Path,
) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not here")
    bus_port, port = free_ports(2)
    store = [word.replace("/data", str(tmp_path / "bus")) for word in services["nats"]["command"]]
    running(program(), *store, "--addr", "127.0.0.1", "--port", bus_port)

    def setting(text: str) -> str:
        text = text.replace("nats://nats:4222", f"nats://127.0.0.1:{bus_port}")
        return re.sub(r"\$\{UPSTREAM:\?[^}]*\}", upstream.url, text)

    nodes = {}
    for name, service in services.items():
        if "environment" in service:
            given = {key: setting(value) for key, value in service["environment"].items()}
            directory = {"SVC_DATA_DIRECTORY": str(tmp_path / name)}  # as the image has it, on a volume of its own
            nodes[name] = start_node(**given, **directory)
    addresses = {name: node.wait_until_serving().url.removeprefix("http://") for name, node in nodes.items()}
    file, _, where = services["nginx"]["volumes"][0].partition(":")
    assert where == "/etc/nginx/conf.d/default.conf:ro"
    site = (DEPLOY / "docker" / file).read_text()
    behind = {name: address for name, address in addresses.items() if name.startswith("replica")}
    # Workers of nginx may have another user than this one, who may not enter here.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    running("nginx", "-c", nginx_file(tmp_path, site, behind, port))
    url = f"http://127.0.0.1:{port}/"

    def number() -> int:
        try:
            return int(ask(url, "node_getBlockNumber"))
        except (OSError, urllib.error.HTTPError):
            return -1

    wait(lambda: number() == chain.tip)
    with upstream.lock:
        chain.propose(2)
        chain.publish()
    for node in nodes.values():
        wait(lambda node=node: node.call("node_getBlockNumber")["result"] == chain.tip)
    assert {number() for _ in range(6)} == {chain.tip}

    def listed() -> set[str]:
        printed = subprocess.run(
            [sys.executable, "-m", "fastnode", "fleet", "status"],
            env=clean_environment(SVC_BUS_URL=f"nats://127.0.0.1:{bus_port}"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        ).stdout
        return set(re.findall(r"(?:publisher|replica)-\d", printed))

    wait(lambda: listed() == set(nodes))
    # Any two of them may go.
    for name in ("replica-1", "publisher-1"):
        nodes[name].process.kill()
    assert {number() for _ in range(6)} == {chain.tip}
