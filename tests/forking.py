"""Runs scripts in forks of a process that has loaded what they import: ``python -m tests.forking SOCKET``.

A message on the socket is its length with the two descriptors of a script's input and output, then its text and its
arguments as JSON; the answer is the id of its process.  A byte asks for its exit code, which comes when it has ended:
till then the id is no other's.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import traceback
from typing import NoReturn

from tests.killed import WORD_BYTES

#: Imports of the scripts.
MODULES = (
    "fastnode.app.stages.origins",
    "fastnode.chain_data",
    "fastnode.config.settings",
    "fastnode.sources.chain_import",
    "fastnode.sources.publication",
)


def run(script: str, arguments: list[str], streams: list[int]) -> NoReturn:
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.argv = ["-c", *arguments]
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - told to the one who asked
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> None:
    for name in MODULES:
        importlib.import_module(name)
    asked = socket.socket(fileno=int(sys.argv[1]))
    while True:
        head, streams, _, _ = socket.recv_fds(asked, 4, 2)
        if not head:
            return
        script, *arguments = json.loads(asked.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            asked.close()
            run(script, arguments, streams)
        for stream in streams:
            os.close(stream)
        asked.sendall(b"%*d" % (WORD_BYTES, pid))
        asked.recv(1)
        _, status = os.waitpid(pid, 0)
        asked.sendall(b"%*d" % (WORD_BYTES, os.waitstatus_to_exitcode(status)))


main()
