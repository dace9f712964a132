"""Where a client of the admin port may send a snapshot: files and clouds that the operator has named, and no others.

Who starts an upload chooses a path that the node writes to with its own rights, or a bucket that it opens with the
credentials of its machine.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from fastnode.errors import SnapshotError

__all__ = ["require_allowed"]

_WRITABLE: Final = ("file:///", "s3://", "gs://")


def require_allowed(text: str, allowed: Sequence[str], directory: Path) -> None:
    """SnapshotError unless the location is one of ``allowed`` or below it; none given: below ``directory``."""
    if not text.startswith(_WRITABLE):
        return  # the reader of the location reports what is wrong
    roots = allowed or (f"file://{quote(str(directory.resolve()))}",)
    try:
        if any(_is_below(urlsplit(text), urlsplit(root)) for root in roots):
            return
    except ValueError:  # no URL
        pass
    where = "those of --snapshot-upload-locations" if allowed else "files below the data directory"
    raise SnapshotError(
        f"snapshots are uploaded to {where} only; start the node with --snapshot-upload-locations to allow others"
    )


def _is_below(url: SplitResult, root: SplitResult) -> bool:
    """The query counts: it may name another server."""
    if (url.scheme, url.netloc, url.query) != (root.scheme, root.netloc, root.query):
        return False
    path, above = _real(url), _real(root)
    return path == above or path.startswith(above.rstrip("/") + "/")


def _real(url: SplitResult) -> str:
    path = unquote(url.path)
    return str(Path(path).resolve()) if url.scheme == "file" else posixpath.normpath("/" + path.lstrip("/"))
