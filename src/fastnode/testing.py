"""A local network for test suites: started when it is needed, on free ports, gone afterwards.

    with local_network() as network:
        wallet = Wallet(network.url)
        with network.rolled_back():             # what happens in here is undone at the end
            network.mine(3)
            network.warp("+86400")

With pytest the fixture ``fastnode_network`` is there as soon as fastnode is installed: one network for the whole run,
returned after each test to what it was before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fastnode.client import Call, Client
from fastnode.errors import CallRejected, RpcError, StartError
from fastnode.records import dataclass

__all__ = ["LocalAccount", "RunningNetwork", "call_url", "local_network"]

#: Longest time for a start and a stop on a busy machine, in seconds.
PATIENCE_S: Final = 60.0

#: Nothing of a run stays, no other process gets its ports, and no key is needed for what only this machine can reach.
_FLAGS: Final = ("--port=0", "--admin-port=0", "--metrics-port=0", "--disable-admin-api-key")


@dataclass(frozen=True, slots=True)
class LocalAccount:
    """An account that is deployed and funded from the beginning.  Hex text; all its keys follow from the secret."""

    address: str
    secret: str


class RunningNetwork:
    """A local network that serves.  Methods may be called from any thread; an error of the node is an RpcError."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.url: str = ready["url"]
        self.admin_url: str = ready["adminUrl"]
        #: Answers as an L1 without an EVM, with ``--l1-clock-port=0``; None: not asked for.
        self.l1_clock_url: str | None = ready.get("l1ClockUrl")
        #: Id of the process that the network runs in.
        self.pid: int = ready["pid"]
        self.accounts = tuple(LocalAccount(**account) for account in ready.get("accounts", ()))
        #: Addresses of ``bananaCoin``, ``bananaFPC`` and ``sponsoredFPC``.
        self.contracts: dict[str, str] = ready.get("contracts", {})

    def call(self, method: str, *parameters: Any) -> Any:
        """The result of one call of the public port; None when there is none."""
        return call_url(self.url, method, parameters)

    def call_admin(self, method: str, *parameters: Any) -> Any:
        """The same for the admin port."""
        return call_url(self.admin_url, method, parameters)

    @property
    def block_number(self) -> int:
        """The newest block."""
        number: int = self.call("node_getBlockNumber")
        return number

    def mine(self, blocks: int = 1) -> int:
        """Build blocks, the first with what waits; the number of the newest."""
        number: int = self.call("fastnode_mine", blocks)
        return number

    def warp(self, time: int | str) -> int:
        """Build a block at a timestamp, or so many seconds from now (``"+60"``); its timestamp."""
        timestamp: int = self.call("fastnode_warp", time)
        return timestamp

    def snapshot(self) -> str:
        """A place that :meth:`revert` returns to."""
        number: str = self.call("fastnode_snapshot")
        return number

    def revert(self, snapshot: str) -> bool:
        """Return to a snapshot; False when there is none of this name (any more)."""
        is_done: bool = self.call("fastnode_revert", snapshot, True)
        return is_done

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Take back at the end what happens inside."""
        snapshot = self.snapshot()
        try:
            yield
        finally:
            self.revert(snapshot)


def call_url(url: str, method: str, parameters: Sequence[Any]) -> Any:
    """The result of one call to any JSON-RPC server; None when there is none.  RpcError for its error, NoAnswer."""
    with Client(url, timeout_s=PATIENCE_S, retries=0) as client:
        try:
            return client.call(Call(method, tuple(parameters)))
        except CallRejected as error:
            raise RpcError(error.message, data=error.data, code=error.code) from error


@contextmanager
def local_network(*flags: str, in_process: bool = False) -> Iterator[RunningNetwork]:
    """A network with the flags of ``fastnode start --local-network``; it ends with the block.

    Settings in the environment do not count.  It is a process of its own unless ``in_process``: then it runs in a
    thread of this one, which begins sooner and shares the processor with the tests.  StartError with the node's own
    words when it does not start.
    """
    start = _in_thread if in_process else _as_process
    with start((*_FLAGS, *flags)) as ready:
        yield RunningNetwork(ready)


# ---- as a process ----------------------------------------------------------------------------------


@contextmanager
def _as_process(flags: Sequence[str]) -> Iterator[dict[str, Any]]:
    reader, writer = os.pipe()
    command = [sys.executable, "-P", "-m", "fastnode", "start", "--local-network", f"--ready-fd={writer}", *flags]
    with os.fdopen(reader, "rb") as ready:
        try:
            process = subprocess.Popen(
                command,
                pass_fds=(writer,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_environment(),
            )
        finally:
            os.close(writer)
        log = _Drain(process)
        try:
            line = ready.readline()
            if not line:
                process.wait(PATIENCE_S)
                raise StartError(f"the local network did not start: {log.last_line()}")
            yield json.loads(line)
        finally:
            _end(process)
            log.join()


def _environment() -> dict[str, str]:
    """This process's, without the settings of a node that may be in it: the network is what its flags say."""
    from fastnode.config.resolve import CONFIG_ENVIRONMENT
    from fastnode.config.settings import Settings, rows

    names = {name for setting in rows(Settings) for name in setting.environment} | {CONFIG_ENVIRONMENT}
    return {name: value for name, value in os.environ.items() if name not in names and not name.startswith("SVC_")}


class _Drain:
    """Reads what a process logs, so that it never waits for a reader; remembers the end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._stream = process.stderr
        self._last = b""
        self._thread = threading.Thread(target=self._read, name="fastnode-log", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                self._last = line.strip() or self._last

    def join(self) -> None:
        self._thread.join(PATIENCE_S)

    def last_line(self) -> str:
        self.join()
        return self._last.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- in a thread -------------------------------------------------------------------------------------


@contextmanager
def _in_thread(flags: Sequence[str]) -> Iterator[dict[str, Any]]:
    running = _NodeThread(flags)
    running.start()
    try:
        yield running.wait_until_ready()
    finally:
        running.stop()


class _NodeThread(threading.Thread):
    """A node on an event loop of its own."""

    def __init__(self, flags: Sequence[str]) -> None:
        super().__init__(name="fastnode-local-network", daemon=True)
        self._flags = flags
        self._is_ready = threading.Event()
        self._ready: dict[str, Any] = {}
        self._error: BaseException | None = None
        #: While the loop runs; to be called with the lock, as a loop that is closed takes no calls.
        self._request_stop: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        import asyncio

        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised where the network is waited for
            self._error = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        import asyncio

        from fastnode.app.process.node import Node
        from fastnode.app.process.ready_line import ready_line

        loop, is_stopping = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            self._request_stop = lambda: loop.call_soon_threadsafe(is_stopping.set)
        try:
            node = await Node.start(_settings(self._flags))
            try:
                self._ready = ready_line(node)
                self._is_ready.set()
                await is_stopping.wait()
            finally:
                await node.stop()
        finally:
            with self._lock:
                self._request_stop = None

    def wait_until_ready(self) -> dict[str, Any]:
        self._is_ready.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error
        if not self._ready:
            raise StartError(f"the local network did not start within {PATIENCE_S:g} s")
        return self._ready

    def stop(self) -> None:
        with self._lock:
            if self._request_stop is not None:
                self._request_stop()
        self.join(PATIENCE_S)


def _settings(flags: Sequence[str]) -> Any:
    """Settings that the command line makes of the flags."""
    import click

    from fastnode.cli.options import SettingsCommand, with_settings
    from fastnode.config.settings import START

    @click.command(cls=SettingsCommand)
    @with_settings(START, environment={})
    def read(resolved: Any) -> Any:
        return resolved.values

    try:
        return read.main(["--local-network", *flags], standalone_mode=False)
    except click.ClickException as error:
        raise StartError(error.format_message()) from None
