"""The artifacts that come with fastnode, made from the release's npm packages.

python -m fastnode.development.known_artifacts FOLDER...     folders of artifacts, *.json
"""

from __future__ import annotations

import lzma
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson

from fastnode.artifacts.store import KNOWN_ARTIFACTS
from fastnode.protocol.artifacts import compact_artifact, read_compact

__all__ = ["pack"]


def pack(files: Iterable[Path]) -> bytes:
    """Their compact forms, in the order of their class ids."""
    lines = {}
    for file in files:
        compact = compact_artifact(orjson.loads(file.read_bytes()))
        lines[read_compact(compact).class_id.hex()] = orjson.dumps(compact)
    return lzma.compress(b"".join(b"%b %b\n" % (key.encode(), line) for key, line in sorted(lines.items())), preset=9)


if __name__ == "__main__":
    found = [file for folder in sys.argv[1:] for file in sorted(Path(folder).glob("*.json"))]
    (Path(__file__).parents[1] / "data" / KNOWN_ARTIFACTS).write_bytes(pack(found))
