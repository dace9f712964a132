"""Bytes recorded between published nodes of release 4.1.2 and a peer; tests/data/p2p."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "data" / "p2p"
#: Of the network that they were recorded on.
VERSION: Final = "00-31337-322813fd-1657031973-2672340d-1dd2644a"


def recorded(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def recorded_json(name: str) -> Any:
    return json.loads(recorded(name))
