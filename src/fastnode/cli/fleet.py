"""``fastnode fleet``: the nodes that share a bus."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fastnode.cli.output import say
from fastnode.errors import StartError

if TYPE_CHECKING:
    from fastnode.bus.connection import Bus

__all__ = ["fleet"]

_COLUMNS: Final = ("name", "role", "tip", "behind", "lag ms", "version", "state")


@click.group(short_help="Look at the nodes that share a bus.")
def fleet() -> None:
    """Look at the nodes that share a bus (docs/fleet.md)."""


@fleet.command(short_help="List the nodes with their tips.")
@click.option(
    "--bus-url", "urls", multiple=True, required=True, envvar="SVC_BUS_URL", metavar="URL", help="As a node's."
)
@click.option("--bus-credentials", "credentials", type=click.Path(path_type=Path, readable=False), help="As a node's.")
@click.option("--bus-nkey", "nkey", type=click.Path(path_type=Path, readable=False), help="As a node's.")
@click.option("--bus-tls-ca", "tls_ca", type=click.Path(path_type=Path, readable=False), help="As a node's.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=5.0, metavar="SECONDS", help="[default: 5]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(
    urls: Sequence[str],
    credentials: Path | None,
    nkey: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> int:
    """List the nodes of each fleet on the bus, as they told of themselves in the last half minute.

    Exit code 0 when all are well, 1 otherwise: also when there is none.
    """
    from fastnode.bus.connection import Bus
    from fastnode.bus.options import BusOptions

    servers = tuple(part for url in urls for part in url.split(","))
    bus = Bus(BusOptions(urls=servers, name="fastnode-fleet-status", credentials=credentials, nkey=nkey, tls_ca=tls_ca))
    bus.start()
    try:
        fleets = _read(bus, timeout)
    finally:
        bus.close()
    if as_json:
        say(json.dumps(fleets, indent=2, ensure_ascii=False))
    else:
        for name, nodes in fleets.items():
            _print(name, nodes)
    all_nodes = [node for nodes in fleets.values() for node in nodes]
    return 0 if all_nodes and all(node.get("trouble") is None for node in all_nodes) else 1


def _read(bus: Bus, timeout_s: float) -> dict[str, list[dict[str, Any]]]:
    from fastnode.bus.members import Members
    from fastnode.bus.subjects import PREFIX, Subjects

    deadline = time.monotonic() + timeout_s
    while not bus.is_connected:
        if time.monotonic() >= deadline:
            raise StartError(f"the bus does not answer: {bus.trouble}")
        time.sleep(0.02)
    fleets: dict[str, list[dict[str, Any]]] = {}
    for name in bus.names(f"KV_{PREFIX}"):
        subjects = Subjects(name.removeprefix("KV_"))
        nodes = [{"name": node} | value for node, value in sorted(Members(bus, subjects).all().items())]
        tip = max((node.get("tip") or 0 for node in nodes), default=0)
        fleets[subjects.stream] = [node | {"behind": tip - (node.get("tip") or 0)} for node in nodes]
    return fleets


def _print(name: str, nodes: Sequence[dict[str, Any]]) -> None:
    say(f"{name}: {len(nodes)} nodes")
    rows = [_COLUMNS, *(_row(node) for node in nodes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        say("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    lag = node.get("lagMs")
    state = "well" if node.get("trouble") is None else str(node["trouble"])
    values = (node["name"], node.get("role"), node.get("tip"), node["behind"], lag, node.get("release"), state)
    return tuple("-" if value is None else str(value) for value in values)
