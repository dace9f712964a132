"""Artifacts of contracts by class id: those that were registered here, a file for each, and those of fastnode itself.

    <data directory>/artifacts/<class id>.json     the compact form (protocol/artifacts.py), whole or not there at all
    data/known_artifacts.jsonl.xz                  those of the release's packages, a line for each

Whoever reads looks at the file each time: other processes of the node read the same folder, and are told of nothing.  A
file that does not give its class id is ignored.
"""

from __future__ import annotations

import logging
import lzma
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Final

import orjson

from fastnode import interpreter
from fastnode.errors import DecodeError, Refused
from fastnode.files import make_folder, replace_file
from fastnode.log import log_facts
from fastnode.protocol.artifacts import COMPACT_BYTES_MAX, Artifact, compact_artifact, read_compact

__all__ = ["ARTIFACTS_DIRECTORY", "ARTIFACTS_MAX", "KNOWN_ARTIFACTS", "TOTAL_BYTES_MAX", "ArtifactStore"]

logger = logging.getLogger("fastnode.artifacts")

ARTIFACTS_DIRECTORY: Final = "artifacts"
KNOWN_ARTIFACTS: Final = "known_artifacts.jsonl.xz"
#: Artifacts that are kept, and bytes of all of them together.
ARTIFACTS_MAX: Final = 1_000
TOTAL_BYTES_MAX: Final = 64 << 20
#: Artifacts that are held in memory, ready to be used: each takes up to some megabytes.
_READY_MAX: Final = 32
_SUFFIX: Final = ".json"
_CLASS_ID_DIGITS: Final = 64


class ArtifactStore:
    """Usable from any thread.  ``directory`` None: nothing is registered, and what comes with fastnode is known."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._ready: OrderedDict[tuple[bytes, int], Artifact] = OrderedDict()
        #: Lines of those that come with fastnode, by class id; None: not read yet.
        self._known: dict[bytes, bytes] | None = None

    def register(self, record: object, check: Callable[[Artifact], None]) -> Artifact:
        """Keep an artifact, as the compiler wrote it or in its compact form, in the place of one of the same class.

        DecodeError names what makes it no artifact; Refused: ``check`` refuses it, or there is no room for it.
        """
        with interpreter.BUSY:
            compact = compact_artifact(record)
            content = orjson.dumps(compact)
            if len(content) > COMPACT_BYTES_MAX:
                raise DecodeError(f"its compact form has {len(content)} bytes, at most {COMPACT_BYTES_MAX} are kept")
            artifact = read_compact(compact)
        check(artifact)
        self._write(artifact.class_id, content)
        logger.info("artifact registered", extra=log_facts(contract=artifact.name, classId=artifact.class_id.hex()))
        return artifact

    def _write(self, class_id: bytes, content: bytes) -> None:
        directory = self._directory
        if directory is None:
            raise Refused("This node has no directory in which artifacts could be kept")
        path = directory / f"{class_id.hex()}{_SUFFIX}"
        with self._lock:
            try:
                make_folder(directory)
                sizes = {entry.name: entry.stat().st_size for entry in directory.iterdir() if entry.suffix == _SUFFIX}
                sizes.pop(path.name, None)
                if len(sizes) >= ARTIFACTS_MAX or sum(sizes.values()) + len(content) > TOTAL_BYTES_MAX:
                    raise Refused(
                        f"{len(sizes)} artifacts of {sum(sizes.values())} bytes are kept; at most {ARTIFACTS_MAX} of "
                        f"{TOTAL_BYTES_MAX} bytes may be: files in {ARTIFACTS_DIRECTORY}/ of the data directory may be "
                        "deleted",
                        data={"code": "TOO_MANY_ARTIFACTS"},
                    )
                replace_file(path, content)
            except OSError as error:
                raise Refused(
                    f"The artifact cannot be written: {error.strerror}", data={"code": "DISK_FAILS"}
                ) from error

    def find(self, class_id: bytes) -> Artifact | None:
        """The artifact of a class: the one that was registered, else the one that comes with fastnode."""
        registered = self.find_registered(class_id)
        return registered or self._of_package(class_id)

    def find_registered(self, class_id: bytes) -> Artifact | None:
        if self._directory is None:
            return None
        path = self._directory / f"{class_id.hex()}{_SUFFIX}"
        try:
            found = path.stat()
            key = class_id, found.st_mtime_ns
            ready = self._take_ready(key)
            if ready is not None or found.st_size > COMPACT_BYTES_MAX:
                return ready
            content = path.read_bytes()
        except OSError:
            return None
        return self._read(key, content)

    def _of_package(self, class_id: bytes) -> Artifact | None:
        key = class_id, 0
        ready = self._take_ready(key)
        if ready is not None:
            return ready
        with self._lock:
            if self._known is None:
                self._known = _read_known()
        line = self._known.get(class_id)
        return None if line is None else self._read(key, line)

    def _take_ready(self, key: tuple[bytes, int]) -> Artifact | None:
        with self._lock:
            found = self._ready.get(key)
            if found is not None:
                self._ready.move_to_end(key)
            return found

    def _read(self, key: tuple[bytes, int], content: bytes) -> Artifact | None:
        try:
            artifact = read_compact(orjson.loads(content))
        except (DecodeError, orjson.JSONDecodeError) as error:
            self._report_ignored(key[0], str(error))
            return None
        if artifact.class_id != key[0]:
            self._report_ignored(key[0], "it is of another class")
            return None
        with self._lock:
            self._ready[key] = artifact
            while len(self._ready) > _READY_MAX:
                self._ready.popitem(last=False)
        return artifact

    def _report_ignored(self, class_id: bytes, reason: str) -> None:
        file = None if self._directory is None else self._directory / f"{class_id.hex()}{_SUFFIX}"
        facts = log_facts(file=file, reason=reason, remedy="remove the file, or register the artifact again")
        logger.warning("artifact ignored", extra=facts)


def _read_known() -> dict[bytes, bytes]:
    """Lines ``class id in hexadecimal | blank | compact JSON``."""
    packed = (resources.files("fastnode") / "data" / KNOWN_ARTIFACTS).read_bytes()
    lines = lzma.decompress(packed).splitlines()
    return {bytes.fromhex(line[:_CLASS_ID_DIGITS].decode()): line[_CLASS_ID_DIGITS + 1 :] for line in lines}
