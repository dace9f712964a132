"""Snapshots that somebody has changed, with right checksums everywhere."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.forged_tables import blocks_of, with_index

from fastnode.snapshots.archive import ArchiveWriter
from fastnode.snapshots.index import Index, Network


def network_folder(folder: Path) -> Path:
    [found] = folder.iterdir()
    return found


def archive(folder: Path, key: str) -> Path:
    [found] = network_folder(folder).glob(f"{key}-*.tar")
    return found


def rewrite_index(folder: Path, facts: Mapping[str, Any]) -> None:
    """An index whose checksums are right for other archives."""
    network = Network.of_folder(network_folder(folder).name)
    assert network is not None
    file = network_folder(folder) / "index.json"
    [item] = Index.from_bytes(file.read_bytes(), network).snapshots
    file.write_bytes(Index(network, (replace(item, files=dict(item.files) | facts),)).to_bytes())


def forge_index(
    folder: Path, key: str, unpacked: Path, change: Callable[[list[tuple[int, int]]], list[tuple[int, int]]]
) -> None:
    """An archive whose largest table has an index that leads to other blocks; ``unpacked``: a folder to work in."""
    with tarfile.open(archive(folder, key)) as packed:
        packed.extractall(unpacked, filter="data")
    table = max(unpacked.glob("*.ldb"), key=lambda file: file.stat().st_size)
    content = table.read_bytes()
    table.write_bytes(with_index(content, change(blocks_of(content))))
    writer = ArchiveWriter(unpacked)
    archive(folder, key).write_bytes(b"".join(writer))
    rewrite_index(folder, {key: writer.facts})
