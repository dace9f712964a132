"""The page of the admin port while its node starts: which stage it is in, what it waits for, and how far that is.

It has no script: the browser loads it again every second, until the node serves its own page at the same place.  The
answer is 503 as for every other request, with ``Retry-After``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from http import HTTPStatus
from typing import Final, NamedTuple

from fastnode.http.messages import Response, header_fields
from fastnode.status_page.files import CAUTION, NOT_KEPT, page_files, respond

__all__ = ["STAGES", "StartReport", "StartingPage"]

#: Names of the stages of a start, in their order.
STAGES: Final = (
    "Open the ports and the databases",
    "Load the chain and the state",
    "Prepare the parts of the node",
    "Serve",
)
_ROOT: Final = b"/"
_RELOAD_S: Final = 1
_HTML: Final = header_fields(("Content-Type", "text/html; charset=utf-8"), ("Retry-After", str(_RELOAD_S)))
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="{reload}">
<title>fastnode: starting</title>
<link rel="icon" href="status-page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="status-page/page.css">
</head>
<body>
<header>
  <h1>fastnode</h1>
  <p class="badge warn" role="status">starting</p>
  <p class="quiet">for {seconds} s</p>
</header>
<main>
  <section class="card">
    <h2>Stage {number} of {count}</h2>
    <ol>
{stages}
    </ol>
    <p>Waiting for {reason}</p>
{progress}  </section>
  <p class="quiet">This page reloads every second. <code>/readyz</code> answers 200 when the node serves.</p>
</main>
</body>
</html>
"""


class StartReport(NamedTuple):
    """State of a start.  ``stage`` is an index of :data:`STAGES`; ``reason`` follows the words "waiting for".

    ``progress``: how much of how much is done, None if that is unknown.
    """

    stage: int
    reason: str
    seconds: int
    progress: tuple[int, int] | None = None


class StartingPage:
    """Answers a browser with the page, and with the style sheet and the icon of the page of a running node."""

    def __init__(self, report: Callable[[], StartReport]) -> None:
        self._report = report

    def on_get(self, path: bytes, _target: bytes, headers: Mapping[bytes, bytes]) -> Response | None:
        """None for another path, and for a client that does not ask for HTML."""
        if path == _ROOT:
            if b"text/html" not in headers.get(b"accept", b"").lower():
                return None
            page = _render(self._report()).encode("utf-8", "replace")
            return respond(HTTPStatus.SERVICE_UNAVAILABLE, CAUTION + NOT_KEPT + _HTML, page, headers)
        file = page_files().by_path.get(path)
        return None if file is None else file.respond(headers)


def _render(report: StartReport) -> str:
    stages = []
    for index, name in enumerate(STAGES):
        text = f"<b>{name}</b>" if index == report.stage else f'<span class="quiet">{name}</span>'
        current = ' aria-current="step"' if index == report.stage else ""
        stages.append(f"      <li{current}>{text}{', done' if index < report.stage else ''}</li>")
    progress = ""
    if report.progress is not None and report.progress[1] > 0:
        done, total = report.progress
        share = f"{100 * min(done, total) // total}%"
        progress = f'    <p><progress max="{total}" value="{done}">{share}</progress> {share}</p>\n'
    return _PAGE.format(
        reload=_RELOAD_S,
        seconds=report.seconds,
        number=report.stage + 1,
        count=len(STAGES),
        stages="\n".join(stages),
        reason=escape(report.reason),
        progress=progress,
    )
