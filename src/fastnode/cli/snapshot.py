"""``fastnode snapshot create|list|restore|verify``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fastnode.cli.chain import prepare
from fastnode.cli.options import LoggingCommand, with_settings
from fastnode.cli.output import say
from fastnode.cli.progress import Advance, progress
from fastnode.config.resolve import Resolved
from fastnode.config.settings import Settings
from fastnode.config.table import CHECK
from fastnode.errors import SnapshotError

if TYPE_CHECKING:
    from fastnode.snapshots.index import Network, Snapshot
    from fastnode.snapshots.location import Location

__all__ = ["snapshot"]

_MIB: Final = 1 << 20


@click.group()
def snapshot() -> None:
    """Copies of the databases: make, list, restore, verify.

    A LOCATION is file:///path, s3://bucket/path?endpoint=URL, gs://bucket/path, or, for reading, https://host/path.
    """


@snapshot.command(cls=LoggingCommand)
@click.argument("location")
@with_settings(CHECK)
def create(resolved: Resolved[Settings], location: str) -> None:
    """Upload a snapshot of a data directory whose node is not running.

    A running node makes one when it is asked with nodeAdmin_startSnapshotUpload.
    """
    _, path = prepare(resolved)
    from fastnode.snapshots.create import create_snapshot
    from fastnode.snapshots.location import Location
    from fastnode.storage.data_directory import DataDirectory
    from fastnode.storage.replacement import finish_replacement

    target = Location.to_write(location)
    with DataDirectory.open(path, create=False), progress("uploading") as advance:
        finish_replacement(path)
        made = create_snapshot(path, target, nullcontext(), on_progress=_in_mib(advance))
    say(f"block {made.l2_block_number}, {made.bytes / _MIB:.1f} MiB")


@snapshot.command("list")
@click.argument("location")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def list_snapshots(location: str, as_json: bool) -> None:
    """Print the snapshots at LOCATION, newest first."""
    from fastnode.snapshots.index import can_read
    from fastnode.snapshots.location import Location

    source = Location.to_read(location)
    found = {network.folder: source.read_index(network).snapshots for network in source.networks()}
    if as_json:
        described = [
            {
                "network": folder,
                "time": item.time.isoformat(),
                "block": item.l2_block_number,
                "bytes": item.bytes,
                "isUsable": can_read(item.schemas),
            }
            for folder, snapshots in found.items()
            for item in snapshots
        ]
        say(json.dumps(described, indent=2))
        return
    for folder, snapshots in found.items():
        say(folder)
        for item in snapshots:
            use = "" if can_read(item.schemas) else "  (other schema: not for this release)"
            size = f"{item.bytes / _MIB:.1f} MiB"
            say(f"  {item.time:%Y-%m-%d %H:%M:%S}  block {item.l2_block_number}  {size}{use}")


@snapshot.command(short_help="Fill a data directory from a snapshot.", cls=LoggingCommand)
@click.argument("location")
@click.option("--block", type=click.IntRange(min=0), metavar="N", help="The snapshot of this block, not the newest.")
@click.option("--replace", is_flag=True, help="Replace the chain that the data directory holds.")
@with_settings(CHECK)
def restore(resolved: Resolved[Settings], location: str, block: int | None, replace: bool) -> None:
    """Fill a data directory from a snapshot, after verifying everything in it."""
    _, path = prepare(resolved)
    from fastnode.snapshots.location import Location
    from fastnode.snapshots.restore import choose_network, restore_snapshot
    from fastnode.snapshots.stored import stored_chain
    from fastnode.storage.data_directory import DataDirectory
    from fastnode.storage.replacement import finish_replacement

    source = Location.to_read(location)
    with DataDirectory.open(path, create=True), progress("restoring") as advance:
        finish_replacement(path)
        stored = stored_chain(path)
        if stored is not None and not replace:
            raise SnapshotError(f"the data directory {path} holds a chain already; add --replace to give it up")
        network = choose_network(source) if stored is None else stored.network
        chosen = _choose(source, network, block)

        def on_progress(what: str, done: int, total: int) -> None:
            advance(done, total, what)

        restore_snapshot(path, source, network, chosen, on_progress=on_progress)
    say(f"restored block {chosen.l2_block_number} of {network.folder}")


@snapshot.command(short_help="Download a snapshot and check everything in it.")
@click.argument("location")
@click.option("--block", type=click.IntRange(min=0), metavar="N", help="The snapshot of this block, not the newest.")
def verify(location: str, block: int | None) -> None:
    """Download a snapshot to a temporary folder and work out again everything in it."""
    from fastnode.snapshots.location import Location
    from fastnode.snapshots.restore import choose_network, download

    source = Location.to_read(location)
    network = choose_network(source)
    chosen = _choose(source, network, block)
    with tempfile.TemporaryDirectory(prefix="fastnode-") as folder, progress("verifying") as advance:

        def on_progress(what: str, done: int, total: int) -> None:
            advance(done, total, what)

        download(Path(folder) / "snapshot", source, network, chosen, on_progress=on_progress)
    say(f"block {chosen.l2_block_number} of {network.folder}: whole")


def _choose(source: Location, network: Network, block: int | None) -> Snapshot:
    from fastnode.snapshots.restore import find_snapshots

    found = find_snapshots(source, network)
    wanted = [item for item in found if block is None or item.l2_block_number == block]
    if not wanted:
        which = "that this release can use" if block is None else f"of block {block}"
        raise SnapshotError(f"{source.text} has no snapshot of {network.folder} {which}")
    return wanted[0]


def _in_mib(advance: Advance) -> Callable[[int, int], None]:
    return lambda done, total: advance(done, total, f"{done // _MIB} of {total // _MIB} MiB")
