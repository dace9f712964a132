"""A node whose stop never ends: the thread that ingests does not come back.

python -m tests.app.stuck_node start ...      ``STUCK=workers``: its workers' links do not close instead
"""

from __future__ import annotations

import os
import threading
from unittest.mock import patch

from fastnode.cli import main

MODULE = "tests.app.stuck_node"

STUCK = {
    "node": "fastnode.app.stages.ingestion.IngestionThread.stop",
    "workers": "fastnode.workers.link.Link.close",
}


def never_come_back(*_arguments: object) -> None:
    threading.Event().wait()


if __name__ == "__main__":
    with patch(STUCK[os.environ["STUCK"]], never_come_back):
        main()
