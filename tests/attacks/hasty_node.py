"""A node that rests for a moment where others rest for seconds, and gives up in a second what others hold for minutes.

python -m tests.attacks.hasty_node start ...      with ``PYTHONPATH`` at the top of the project
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from fastnode.app.stages.origins import OriginPatience
from fastnode.cli import main
from fastnode.sources.blobs.fetcher import FetchPatience

MODULE = "tests.attacks.hasty_node"
ROOT = str(Path(__file__).parents[2])
BRIEF_S = 0.05
#: Instead of ten minutes.
CONTRADICTION_S = 1.0

if __name__ == "__main__":
    blobs = FetchPatience(retries_s=(0.0,), store_rounds_s=(0.0,), lie_rest_s=BRIEF_S)
    endpoints = OriginPatience(
        unavailable_s=BRIEF_S, unavailable_max_s=BRIEF_S, aside_s=BRIEF_S, alone_s=BRIEF_S, blocked_s=BRIEF_S
    )
    with ExitStack() as stack:
        for name, value in {
            "sources.l1.source.CONTRADICTION_S": CONTRADICTION_S,
            "sources.l1.retries.PAUSE_MAX_S": BRIEF_S,
            "app.stages.l1_origin.STANDBY_INTERVAL_S": BRIEF_S,
            "app.stages.derivation.FetchPatience": lambda: blobs,
            "app.stages.origins.OriginPatience": lambda: endpoints,
        }.items():
            stack.enter_context(patch(f"fastnode.{name}", value))
        main()
