"""How a benchmark starts a node in a process of its own: on free ports, without a key, with a log for machines."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["node_command"]


def node_command(data_directory: Path, *flags: str) -> list[str]:
    command = [sys.executable, "-m", "fastnode", "start", "--node", "--port=0", "--admin-port=0", "--metrics-port=0"]
    return [*command, "--log-json", "--disable-admin-api-key", "--data-directory", str(data_directory), *flags]
