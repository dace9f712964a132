"""Nodes in forks of a process that has loaded what they import: ``python -m tests.forked_nodes SOCKET``.

Half a second of processor time, most of what a start costs, is spent once for all the commands of a test process.  All
else is as if an interpreter had been started: a command is a child of the one who asks, with its own arguments,
environment, working directory and streams, and with an exit code of its own.

A message on the socket is its length with the descriptors that a command gets, then the order as JSON; the answer is
the id of the process.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from fastnode.config.settings import Settings, rows

ROOT: Final = Path(__file__).parents[1]

#: Imports of most nodes.
MODULES: Final = (
    "fastnode.api.local_network",
    "fastnode.app.process.process",
    "fastnode.app.stages.origins",
    "fastnode.bus.connection",
    "fastnode.cli.start",
    "fastnode.data_check.whole",
    "fastnode.local_network.opening",
    "fastnode.metrics.port",
    "fastnode.serving.push",
    "fastnode.sources.upstream",
)

#: What may be run: it patches what it wants otherwise, and does not mind that it is loaded already.
_PROGRAMS: Final = frozenset(
    {
        "fastnode",
        "fastnode.data_check.worker",
        "tests.attacks.hasty_node",
        "tests.proofs.toy_network",
        "tests.taking_node",
    }
)

#: Names that may differ from those of the process that forks: it has not read them.
_READ_LATER: Final = frozenset({"FASTNODE_DEBUG", "PWD", "PYTEST_CURRENT_TEST", "PYTHONPATH"})

_PR_SET_CHILD_SUBREAPER: Final = 36
_LENGTH_BYTES: Final = 4
_PID_BYTES: Final = 16
_DESCRIPTORS_MAX: Final = 8


# ---- the one who asks -----------------------------------------------------------------------------------


class Popen(subprocess.Popen[bytes]):
    """``subprocess.Popen``, in a fork if it is for ``python -m fastnode`` and could not tell the difference."""

    def _execute_child(self, *arguments: Any) -> None:
        args, _, before, _, passed, directory, environment, *_ = arguments
        args = _without_safe_path(args)
        streams, begins_session = arguments[10:16], arguments[21]  # two ends of each stream
        environment = dict(os.environ if environment is None else environment)
        if sys.platform != "linux" or before is not None or not _is_known(args) or not _can_fork(environment):
            super()._execute_child(*arguments)
            return
        order = {
            "module": args[2],
            "arguments": args[3:],
            "environment": environment,
            "directory": str(Path(directory or ".").absolute()),
            "begins_session": begins_session,
        }
        of_command = (streams[0], streams[3], streams[5])
        given = {number: number if stream == -1 else stream for number, stream in enumerate(of_command)}
        self.pid = _forking().start(order, given | {number: number for number in passed})
        self._child_created = True
        self._close_pipe_fds(*streams)


def used_by(module: str) -> AbstractContextManager[object]:
    """Inside, a module of fastnode begins its processes in forks, as :class:`Popen` says."""
    return patch(f"{module}.subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": Popen}))


def forking_process() -> int:
    """Id of the process that forks for this one."""
    return _forking().pid


def run(
    command: Sequence[object],
    *,
    given: str | bytes | None = None,
    check: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` with ``given`` as its input and its output captured, by :class:`Popen`."""
    words = [str(word) for word in command]
    stdin = subprocess.DEVNULL if given is None else subprocess.PIPE
    streams = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(words, **(streams | options)) as process:
        try:
            output, errors = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def _is_known(command: Sequence[object]) -> bool:
    return list(command[:2]) == [sys.executable, "-m"] and command[2] in _PROGRAMS


def _without_safe_path(command: Sequence[object]) -> list[object]:
    """The command without -P: a fork imports hardly anything."""
    return [word for place, word in enumerate(command) if (place, word) != (1, "-P")]


@functools.cache
def _settings() -> frozenset[str]:
    return frozenset(name for setting in rows(Settings) for name in setting.environment)


def _can_fork(environment: Mapping[str, str]) -> bool:
    """Nothing else is set otherwise than settings of nodes: it may have an effect on how an interpreter starts."""
    began = _forking().environment
    if environment.get("PYTHONPATH") not in (began.get("PYTHONPATH"), str(ROOT)):
        return False
    return all(
        began.get(name) == environment.get(name) or name.startswith("SVC_")
        for name in {*began, *environment} - _READ_LATER - _settings()
    )


class _Forking:
    """The process that forks."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.pid = self._process.pid

    def start(self, order: Mapping[str, object], given: Mapping[int, int]) -> int:
        """The process id of a command, which becomes a child of this process as its own parent ends.

        ``given`` has descriptors of this process under those of the command.
        """
        message = json.dumps({**order, "descriptors": list(given)}).encode()
        with self._lock:
            _adopt(True)
            try:
                socket.send_fds(self._socket, [len(message).to_bytes(_LENGTH_BYTES, "big")], list(given.values()))
                self._socket.sendall(message)
                answer = self._socket.recv(_PID_BYTES, socket.MSG_WAITALL)
            finally:
                _adopt(False)
        assert answer, "the process that forks has ended"
        return int(answer)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _forking() -> _Forking:
    forking = _Forking()
    atexit.register(forking.close)
    return forking


def _adopt(wanted: bool) -> None:
    """Let processes below this one whose parent ends become children of this one."""
    done = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)
    assert done == 0, os.strerror(ctypes.get_errno())


# ---- the process that forks -----------------------------------------------------------------------------


def become(order: Mapping[str, Any], received: Sequence[int]) -> None:
    """The command, in the process that calls this."""
    if order["begins_session"]:
        os.setsid()
    above = max(order["descriptors"]) + 1  # or one that is put aside would be taken, or closed, as another's place
    aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in received]
    for descriptor in received:
        os.close(descriptor)
    for number, descriptor in zip(order["descriptors"], aside, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Python looks at its streams as it starts: these were others then.
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = [order["module"], *order["arguments"]]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def wait_for_orders(asked: socket.socket) -> tuple[Mapping[str, Any], Sequence[int]] | None:
    """Forks for each order.  In the process of a command: what it is to be.  None at the end."""
    while True:
        head, received, _, _ = socket.recv_fds(asked, _LENGTH_BYTES, _DESCRIPTORS_MAX)
        if not head:
            return None
        order = json.loads(asked.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        reader, writer = os.pipe()
        if os.fork() == 0:
            between = os.getpid()
            pid = os.fork()
            if pid != 0:
                os.write(writer, b"%*d" % (_PID_BYTES, pid))
                os._exit(0)
            for descriptor in (reader, writer, asked.detach()):
                os.close(descriptor)
            while os.getppid() == between:  # or its end would be that of a command that ends with its parent
                time.sleep(0.001)
            return order, received
        for descriptor in (writer, *received):
            os.close(descriptor)
        os.wait()
        asked.sendall(os.read(reader, _PID_BYTES))
        os.close(reader)


def main() -> None:
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()  # a look at what is shared would copy it
    ordered = wait_for_orders(socket.socket(fileno=int(sys.argv[1])))
    if ordered is not None:
        become(*ordered)


if __name__ == "__main__":
    main()
