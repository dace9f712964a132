"""Places of snapshots that others choose: files and clouds that the operator has named, and no others.

Who starts an upload chooses a path that the node writes to with its own rights, or a bucket that it opens with the
credentials of its machine.  Who tells of a snapshot over the bus chooses what a starting replica reads with the same.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from fastnode.errors import SnapshotError

__all__ = ["ON_BUS", "below_named", "public_form", "require_allowed"]

#: The place of this node's own snapshots on the bus of its fleet.
ON_BUS: Final = "bus://"

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


def below_named(told: str, named: Sequence[str]) -> str | None:
    """The location that others tell of, if it is one of ``named`` or below it; None for any other.

    Server and credentials are those of the one that is named: of what is told only the path counts.
    """
    try:
        url = urlsplit(public_form(told))
        for text in named:
            root = urlsplit(text)
            if _is_below(url, urlsplit(public_form(text))):
                return root._replace(path=quote(_real(url)), fragment="").geturl()
    except ValueError:  # no URL, or no path
        pass
    return None


def public_form(location: str) -> str:
    """A location without its query and without what stands before an @.  ValueError for what is no URL."""
    url = urlsplit(location)
    return url._replace(query="", fragment="", netloc=url.netloc.rpartition("@")[2]).geturl()


def _is_below(url: SplitResult, root: SplitResult) -> bool:
    """The query counts: it may name another server."""
    if (url.scheme, url.netloc, url.query) != (root.scheme, root.netloc, root.query):
        return False
    path, above = _real(url), _real(root)
    return path == above or path.startswith(above.rstrip("/") + "/")


def _real(url: SplitResult) -> str:
    path = unquote(url.path)
    return str(Path(path).resolve()) if url.scheme == "file" else posixpath.normpath("/" + path.lstrip("/"))
