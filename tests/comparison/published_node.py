"""Classes of the published node, asked by scripts that run in the folder where it is installed.

The folder has ``root``, a small system to run in (chroot), with Node.js in ``/opt/node`` and the packages in
``/opt/az/node_modules``.  It is named with ``--node`` or in FASTNODE_PUBLISHED_NODE.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

VARIABLE = "FASTNODE_PUBLISHED_NODE"

Json = dict[str, Any]

#: Numbers from here on are not exact in JavaScript, and go as text.
_INEXACT = 1 << 53


def wire(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [wire(item) for item in value]
    return hex(value) if isinstance(value, int) and not isinstance(value, bool) and value >= _INEXACT else value


class PublishedNode:
    """One script, which answers each line of JSON with one.  ``hello`` is its answer to ``greeting``.

    Where the script ends on a question, that one has the answer ``{"ended": true}`` and it is started again.
    """

    def __init__(self, folder: Path, script: Path, greeting: Json, log: Path | None = None) -> None:
        self._root = folder / "root"
        self._script = script
        self._greeting = greeting
        self._log = log
        self._start()

    def _start(self) -> None:
        scripts = self._root / "opt" / "az" / "scripts"
        scripts.mkdir(exist_ok=True)
        # By a name of this process: others may compare other versions at the same time.
        copy = scripts / f"{self._script.stem}_{os.getpid()}{self._script.suffix}"
        shutil.copyfile(self._script, copy)
        path = "PATH=/opt/node/bin:/usr/bin:/bin"
        run = f"cd /opt/az && exec node --no-warnings scripts/{copy.name}"
        with open(self._log or os.devnull, "a") as log:  # noqa: PTH123 - the null device is no Path
            self._process = subprocess.Popen(
                ["chroot", str(self._root), "/usr/bin/env", path, "HOME=/root", "LOG_LEVEL=silent", "bash", "-c", run],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._write([self._greeting])
        hello = self._read()
        copy.unlink()
        if hello is None:
            raise SystemExit(f"the published node in {self._root} does not run {self._script.name}")
        self.hello = hello

    def _write(self, questions: Sequence[Json]) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write("".join(json.dumps(wire(question)) + "\n" for question in questions))
            pipe.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended: the answers say so

    def _read(self) -> Json | None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: Json = json.loads(line)
                return answer
        return None

    def ask(self, question: Json) -> Json:
        return self.ask_all([question])[0]

    def ask_all(self, questions: Sequence[Json], meanwhile: Callable[[], None] = lambda: None) -> list[Json]:
        """Their answers; ``meanwhile`` is called while they are made."""
        answers: list[Json] = []
        while len(answers) < len(questions):
            threading.Thread(target=self._write, args=(questions[len(answers) :],), daemon=True).start()
            meanwhile()
            meanwhile = int
            while len(answers) < len(questions):
                answer = self._read()
                if answer is None:
                    answers.append({"ended": True})
                    self._process.wait()
                    self._start()
                    break
                answers.append(answer)
        return answers

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def folder_of(given: str | None) -> Path:
    """SystemExit where no published node is installed."""
    folder = given or os.environ.get(VARIABLE)
    if not folder or not (Path(folder) / "root" / "opt" / "az" / "node_modules" / "@aztec").is_dir():
        raise SystemExit(f"name the folder where the published node is installed: --node FOLDER, or {VARIABLE}")
    return Path(folder)
