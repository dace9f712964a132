"""Shared fixtures, and one refusal: the suite must not pass on twins by accident."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import logging
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import forked_nodes, invariants

from fastnode import files
from fastnode.config.settings import Settings, rows

#: Served chains, for the tests of everything between a socket and a method.
pytest_plugins = ["tests.serving.fixtures"]

DATA = Path(__file__).parent / "data"
SAMPLE_CHAIN = Path(__file__).parents[1] / "src" / "fastnode" / "data" / "sample_chain.jsonl.xz"

#: Checkpoints of the short chain, after the lines of the chain and of its genesis.
SHORT_CHECKPOINTS = 8

#: Flags of a node that disturbs no other one.
NO_FIXED_PORTS = ("--port=0", "--admin-port=0", "--metrics-port=0")

#: A key of the admin port, and what a node is told of it (``SVC_ADMIN_API_KEY_HASH``).
ADMIN_KEY = "5e1ec7ed" * 8
ADMIN_KEY_HASH = hashlib.sha256(ADMIN_KEY.encode()).hexdigest()

#: What a slow and busy machine may need for a start or a stop.
PATIENCE_S = 60.0


#: Files of tests/ that take longest, and so begin first: the last one would keep one processor busy alone.
LONG_FILES = (
    *("simulation/test_simulation.py", "attacks/test_from_l1.py", "attacks/test_from_peers.py"),
    "local_network/test_node.py",
    *("world_state/test_state.py", "world_state/test_interruption.py", "snapshots/test_interruption.py"),
    *("world_state/test_witnesses_proven.py", "world_state/test_witnesses.py", "world_state/test_views.py"),
    *("world_state/test_check.py", "world_state/test_thin_history.py", "bus/test_users.py"),
    *("bus/test_chaos.py", "bus/test_mutated_messages.py", "bus/test_following.py", "proofs/test_program.py"),
    *("serving/test_fast_path.py", "world_state/test_model.py"),
    *("app/test_node.py", "local_network/test_model.py", "attacks/test_in_transactions.py"),
)

# A test that is held up by another process has not failed.
settings.register_profile("fastnode", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fastnode")


def pytest_report_header() -> str:
    from fastnode import kernels

    return f"fastnode kernels: {'pure-Python twins' if kernels.USING_TWINS else kernels.poseidon2.kernel_name()}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Workers of ``-n auto``: two for each processor, as tests wait for a third of their time."""
    return 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {DATA.parent / file: place for place, file in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    if os.environ.get("FASTNODE_LONG") == "1":
        return
    skip = pytest.mark.skip(reason="long: set FASTNODE_LONG=1")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


def leave_old_objects_alone() -> None:
    """Exclude what there is from garbage collection: a look at a million objects of collected tests takes a second."""
    gc.collect()
    gc.freeze()


def pytest_collection() -> None:
    gc.disable()  # a third of its time: what is collected stays


def pytest_collection_finish() -> None:
    gc.freeze()  # with the garbage: to find it takes a second
    gc.enable()
    gc.set_threshold(20_000, 20, 20)  # a tenth of the time of tests goes into looking every 700 objects


@pytest.fixture(scope="module")
def thaws() -> Iterator[None]:
    """For a module that includes them again."""
    yield
    leave_old_objects_alone()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A module stops the nodes that it starts: a thread that goes on would disturb the tests behind it."""
    before = set(threading.enumerate())
    yield
    started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    ours = [thread for thread in started if thread.name.startswith("fastnode-")]
    if ours:
        gc.collect()  # pools of threads end with their owner, which a cycle may keep
    deadline = time.monotonic() + PATIENCE_S
    for thread in ours:
        thread.join(max(0.0, deadline - time.monotonic()))
    left = [thread.name for thread in ours if thread.is_alive()]
    assert not left, f"these threads were not stopped: {left}"


@pytest.fixture(autouse=True)
def log_settings_are_restored() -> Iterator[None]:
    """A test may configure the log; the next test finds the level and the handlers of the start."""
    ours = logging.getLogger("fastnode")
    level, handlers, propagates = ours.level, ours.handlers[:], ours.propagate
    yield
    ours.setLevel(level)
    ours.handlers[:], ours.propagate = handlers, propagates


@pytest.fixture(autouse=True)
def invariants_hold() -> Iterator[None]:
    """Each object of a class that says what holds between its fields is asked after each of its steps."""
    invariants.guard_new_classes()
    yield
    broken = invariants.take_broken()
    assert not broken, "\n\n".join(broken)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files and folders that have been waited for, as they were then."""
    seen: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", fsync)
    return seen


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The folder of recorded and generated test data."""
    return DATA


@pytest.fixture(scope="session")
def sample_chain() -> Path:
    """The chain file that comes with the package."""
    return SAMPLE_CHAIN


@pytest.fixture(scope="session")
def short_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain file with the first checkpoints of the sample chain: blocks 1 to 16."""
    file = tmp_path_factory.mktemp("chain") / "short.jsonl"
    with lzma.open(SAMPLE_CHAIN) as lines:
        file.write_bytes(b"".join(itertools.islice(lines, 2 + SHORT_CHECKPOINTS)))
    return file


def clean_environment(**names: str) -> dict[str, str]:
    """This process's environment without any setting of a node, plus ``names``."""
    ours = {name for setting in rows(Settings) for name in setting.environment} | {"FASTNODE_DEBUG"}
    kept = {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("SVC_")}
    return kept | names


class NodeProcess:
    """``fastnode start --node`` as a process of its own, on two free ports; begun as ``forked_nodes`` says."""

    def __init__(
        self,
        arguments: list[str],
        log: Path,
        environment: dict[str, str],
        *,
        stdin: int = subprocess.DEVNULL,
        module: str = "fastnode",
    ) -> None:
        self.log = log
        self.output = log.with_suffix(".out")  # what it prints, such as the admin port's key
        with log.open("wb") as errors, self.output.open("wb") as output:
            self.process = forked_nodes.Popen(
                [sys.executable, "-m", module, "start", "--node", *NO_FIXED_PORTS, *arguments],
                stdin=stdin,
                stdout=output,
                stderr=errors,
                env=clean_environment(LOG_JSON="1", **environment),
            )
        self.port = self.admin_port = 0

    @property
    def admin_key(self) -> str:
        """The key of the admin port, from what a first start prints."""
        return self.output.read_text().split("x-api-key: ")[1].split()[0]

    def entries(self) -> list[dict[str, Any]]:
        """The log so far; what is no JSON line (the last word of a failed start) under ``message``."""
        text = self.log.read_text()
        # Of a line that is being written, the beginning may be there already, while the process lives.
        lines = (text if self.process.poll() is not None else text[: text.rfind("\n") + 1]).splitlines()
        return [json.loads(line) if line.startswith("{") else {"message": line} for line in lines]

    def wait_for_line(self, message: str) -> dict[str, Any]:
        """The first log entry with this message, which the process has to bring in time."""
        deadline, read = time.monotonic() + PATIENCE_S, -1
        while time.monotonic() < deadline:
            ended, size = self.process.poll() is not None, self.log.stat().st_size
            if size != read or ended:
                for entry in self.entries():
                    if entry["message"].startswith(message):
                        return entry
                read = size
            assert not ended, f"the node ended: {self.log.read_text()}"
            time.sleep(0.01)
        raise AssertionError(f"no line {message!r}: {self.log.read_text()}")

    def wait_until_serving(self) -> NodeProcess:
        entry = self.wait_for_line("serving")
        self.port, self.admin_port = entry["port"], entry["admin_port"]
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def readiness(self) -> str:
        """What /readyz says, whatever its status."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=PATIENCE_S) as response:
                return str(response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return str(error.read().decode())

    def components(self) -> dict[str, Any]:
        """What /status says of each part, whatever its status."""
        request = urllib.request.Request(f"{self.url}/status", headers={"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
        components: dict[str, Any] = json.loads(body)["components"]
        return components

    def call(self, method: str, *parameters: object) -> Any:
        """The answer to one call, as a dict."""
        return self._ask(self.url, method, parameters)

    def call_admin(self, method: str, *parameters: object, key: str = ADMIN_KEY) -> Any:
        """The admin port's answer to one call, as a dict."""
        return self._ask(f"http://127.0.0.1:{self.admin_port}", method, parameters, {"x-api-key": key})

    def _ask(
        self, url: str, method: str, parameters: tuple[object, ...], headers: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json", **headers})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.loads(response.read())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Starts nodes, ``start_node("--flag", ..., NAME="value")``; whatever still runs at the end is killed.

    ``module`` is what Python runs in place of fastnode.
    """
    started: list[NodeProcess] = []

    def start(*arguments: object, module: str = "fastnode", **environment: str) -> NodeProcess:
        log = tmp_path / f"node-{len(started)}.log"
        started.append(NodeProcess([str(argument) for argument in arguments], log, environment, module=module))
        return started[-1]

    yield start
    for node in started:
        if node.process.poll() is None:
            node.process.kill()
        node.process.wait()
