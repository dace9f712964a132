"""``fastnode snapshot create|list|restore|verify``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
    from fastnode.snapshots.contents import Contents
    from fastnode.snapshots.index import Network, Snapshot
    from fastnode.snapshots.leaf_index import LeafSnapshot
    from fastnode.snapshots.location import Location
    from fastnode.snapshots.restore import Confirm

__all__ = ["snapshot"]

_MIB: Final = 1 << 20


@click.group()
def snapshot() -> None:
    """Copies of the databases: make, list, restore, verify.

    A LOCATION is file:///path, s3://bucket/path?endpoint=URL, gs://bucket/path, or, for reading, https://host/path.
    """


@snapshot.command(cls=LoggingCommand)
@click.argument("location")
@click.option("--leaves", is_flag=True, help="The leaves of the state of one block, in place of its trees and history.")
@with_settings(CHECK)
def create(resolved: Resolved[Settings], location: str, leaves: bool) -> None:
    """Upload a snapshot of a data directory whose node is not running.

    A running node makes one when it is asked with nodeAdmin_startSnapshotUpload.
    """
    from fastnode.snapshots.location import Location

    target = Location.to_write(location)
    _, path = prepare(resolved)
    from fastnode.snapshots.create import create_snapshot
    from fastnode.storage.data_directory import DataDirectory
    from fastnode.storage.replacement import finish_replacement

    if leaves:
        _create_of_leaves(path, target)
        return
    with DataDirectory.open(path, create=False), progress("uploading") as advance:
        finish_replacement(path)
        made = create_snapshot(path, target, nullcontext(), on_progress=_in_mib(advance))
    say(f"block {made.l2_block_number}, {made.bytes / _MIB:.1f} MiB")


def _create_of_leaves(path: Path, target: Location) -> None:
    from fastnode.chain_data import ChainData
    from fastnode.snapshots.contents import OPTIONS
    from fastnode.snapshots.leaf_create import create_leaf_snapshot, leaves_to_ship

    with ChainData.open(path, create=False, options=OPTIONS) as data, progress("uploading") as advance:
        made = create_leaf_snapshot(
            path,
            target,
            nullcontext(),
            lambda: leaves_to_ship(data.store, data.state),
            on_progress=_in_mib(advance),
        )
    say(f"block {made.l2_block_number}, leaves of block {made.state_block_number}, {made.bytes / _MIB:.1f} MiB")


@snapshot.command("list")
@click.argument("location")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def list_snapshots(location: str, as_json: bool) -> None:
    """Print the snapshots at LOCATION, newest first."""
    from fastnode.snapshots.location import Location

    source = Location.to_read(location)
    found = {network.folder: _described(source, network) for network in source.networks()}
    if as_json:
        described = [{"network": folder, **item} for folder, snapshots in found.items() for item in snapshots]
        say(json.dumps(described, indent=2))
        return
    for folder, snapshots in found.items():
        say(folder)
        for item in snapshots:
            use = "" if item["isUsable"] else "  (other schema: not for this release)"
            of = f"  leaves of block {item['oldestBlock']}" if item["form"] == "leaves" else ""
            time = item["time"][:19].replace("T", " ")
            say(f"  {time}  block {item['block']}{of}  {item['bytes'] / _MIB:.1f} MiB{use}")


def _described(source: Location, network: Network) -> list[dict[str, Any]]:
    from fastnode.snapshots.index import can_read

    found = [
        {
            "time": item.time.isoformat(),
            "form": "history",
            "block": item.l2_block_number,
            "bytes": item.bytes,
            "isUsable": can_read(item.schemas),
        }
        for item in source.read_index(network).snapshots
    ]
    found += [
        {
            "time": item.time.isoformat(),
            "form": "leaves",
            "block": item.l2_block_number,
            "oldestBlock": item.state_block_number,
            "bytes": item.bytes,
            "isUsable": item.is_usable,
        }
        for item in source.read_leaf_index(network).snapshots
    ]
    return sorted(found, key=lambda item: str(item["time"]), reverse=True)


@snapshot.command(short_help="Fill a data directory from a snapshot.", cls=LoggingCommand)
@click.argument("location")
@click.option("--block", type=click.IntRange(min=0), metavar="N", help="The snapshot of this block, not the newest.")
@click.option("--replace", is_flag=True, help="Replace the chain that the data directory holds.")
@click.option("--leaves", is_flag=True, help="A snapshot of leaves, not one with the history of the state.")
@click.option(
    "--block-hash", metavar="HASH", help="With --leaves: the hash of their block, as somebody you trust has it."
)
@click.option("--unconfirmed", is_flag=True, help="With --leaves: believe whoever made the snapshot.")
@with_settings(CHECK)
def restore(
    resolved: Resolved[Settings],
    location: str,
    block: int | None,
    replace: bool,
    leaves: bool,
    block_hash: str | None,
    unconfirmed: bool,
) -> None:
    """Fill a data directory from a snapshot, after verifying everything in it.

    Trees are made of leaves, so all that leaves need is somebody who has their block. A node that starts with
    --snapshots-urls asks L1, or the node that it follows; this command takes the block's hash.
    """
    _, path = prepare(resolved)
    from fastnode.snapshots.leaf_restore import restore_leaves
    from fastnode.snapshots.location import Location
    from fastnode.snapshots.restore import choose_network, restore_snapshot
    from fastnode.snapshots.stored_chain import stored_chain
    from fastnode.storage.data_directory import DataDirectory
    from fastnode.storage.replacement import finish_replacement

    source = Location.to_read(location)
    with DataDirectory.open(path, create=True), progress("restoring") as advance:
        finish_replacement(path, keeps_part=leaves)
        stored = stored_chain(path)
        if stored is not None and not replace:
            raise SnapshotError(f"the data directory {path} holds a chain already; add --replace to give it up")
        network = choose_network(source) if stored is None else stored.network

        def on_progress(what: str, done: int, total: int) -> None:
            advance(done, total, what)

        chosen: Snapshot | LeafSnapshot
        if leaves:
            chosen = _choose_leaves(source, network, block)
            confirm = _confirmation(block_hash, is_believed=unconfirmed)
            restore_leaves(path, source, network, chosen, confirm=confirm, on_progress=on_progress)
        else:
            chosen = _choose(source, network, block)
            restore_snapshot(path, source, network, chosen, on_progress=on_progress)
    say(f"restored block {chosen.l2_block_number} of {network.folder}")


def _confirmation(block_hash: str | None, *, is_believed: bool) -> Confirm:
    from fastnode.snapshots.leaf_restore import unconfirmed

    if block_hash is None:
        if is_believed:
            return unconfirmed
        raise SnapshotError(
            "nothing here says whose chain the leaves are of: give the hash of their block with --block-hash, from L1 "
            "or a node that you trust, or believe whoever made the snapshot with --unconfirmed"
        )

    def confirm(contents: Contents) -> None:
        if contents.oldest_block_hash != block_hash.lower():
            raise SnapshotError(
                f"its block {contents.oldest_block_number} is {contents.oldest_block_hash}, not {block_hash}"
            )

    return confirm


def _choose_leaves(source: Location, network: Network, block: int | None) -> LeafSnapshot:
    from fastnode.snapshots.leaf_restore import find_leaf_snapshots

    found = find_leaf_snapshots(source, network)
    wanted = [item for item in found if block is None or item.l2_block_number == block]
    if not wanted:
        which = "that this release can use" if block is None else f"of block {block}"
        raise SnapshotError(f"{source.text} has no snapshot of leaves of {network.folder} {which}")
    return wanted[0]


@snapshot.command(short_help="Download a snapshot and check everything in it.")
@click.argument("location")
@click.option("--block", type=click.IntRange(min=0), metavar="N", help="The snapshot of this block, not the newest.")
@click.option("--leaves", is_flag=True, help="A snapshot of leaves, not one with the history of the state.")
def verify(location: str, block: int | None, leaves: bool) -> None:
    """Download a snapshot to a temporary folder and work out again everything in it."""
    from fastnode.snapshots.leaf_index import LeafSnapshot
    from fastnode.snapshots.leaf_restore import download_leaves
    from fastnode.snapshots.location import Location
    from fastnode.snapshots.restore import choose_network, download

    source = Location.to_read(location)
    network = choose_network(source)
    chosen = _choose_leaves(source, network, block) if leaves else _choose(source, network, block)
    with tempfile.TemporaryDirectory(prefix="fastnode-") as folder, progress("verifying") as advance:

        def on_progress(what: str, done: int, total: int) -> None:
            advance(done, total, what)

        target = Path(folder) / "snapshot"
        if isinstance(chosen, LeafSnapshot):
            download_leaves(target, source, network, chosen, on_progress=on_progress)
        else:
            download(target, source, network, chosen, on_progress=on_progress)
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
