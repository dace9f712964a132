"""The rooms as a picture, drawn from their table: ``python -m fastnode.development.rooms_picture FILE``.

From the bottom up: a room stands above all that it may import.  Those on one of the lower shelves know nothing of each
other; the rooms of the last one stand in the order of the table.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import Final

from fastnode.development.rooms import ROOMS, Room

__all__ = ["render", "shelves"]

_WIDTH: Final = 960
_BOX_WIDTH: Final = 150
_BOX_HEIGHT: Final = 34
_GAP: Final = 8
_PER_ROW: Final = _WIDTH // (_BOX_WIDTH + _GAP)
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#17202b}rect{stroke:#55606e}.named{fill:#dbe9f8}.all{fill:#e4f3ea}"
    "@media (prefers-color-scheme:dark){text{fill:#e6eaf0}rect{stroke:#a3adba}.named{fill:#1d3247}.all{fill:#1c3a2b}}"
)


def shelves() -> list[list[Room]]:
    """The rooms that import none of the last shelf, by what they stand on; then all others, in the table's order."""
    levels: dict[str, int] = {}
    for room in ROOMS:
        if room.imports is not None and room.imports <= levels.keys():
            levels[room.name] = 1 + max((levels[name] for name in room.imports), default=-1)
    low = [room for room in ROOMS if room.name in levels]
    found = [[room for room in low if levels[room.name] == level] for level in range(max(levels.values()) + 1)]
    return [*found, [room for room in ROOMS if room.name not in levels]]


def render() -> str:
    """SVG."""
    rows = [shelf[at : at + _PER_ROW] for shelf in shelves() for at in range(0, len(shelf), _PER_ROW)]
    height = len(rows) * (_BOX_HEIGHT + _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>The rooms of fastnode, each above what it may import</title><style>{_STYLE}</style>",
    ]
    for index, rooms in enumerate(rows):
        y = height - (index + 1) * (_BOX_HEIGHT + _GAP)
        for place, room in enumerate(rooms):
            x = _GAP + place * (_BOX_WIDTH + _GAP)
            kind = "all" if room.imports is None else "named"
            box = f'x="{x}" y="{y}" rx="5" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
            text = f'<text x="{x + 10}" y="{y + 22}">{html.escape(room.title)}</text>'
            parts.append(f'<g><title>{html.escape(room.purpose)}</title><rect class="{kind}" {box}/>{text}</g>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
