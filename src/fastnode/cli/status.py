"""``fastnode status``: how a running node is, from its probes and its sync status."""

from __future__ import annotations

import json
import os
from http import HTTPStatus
from typing import Any, Final

import click

from fastnode.cli.node_calls import DEFAULT_URL, KEY_ENVIRONMENT, URL_ENVIRONMENT, call, get_json, url_of
from fastnode.cli.output import duration, say
from fastnode.errors import StartError

__all__ = ["status"]

_TIPS: Final = ("proposed", "checkpointed", "proven", "finalized")
#: Line of a component that is called as the line about the node itself.
_NAMES: Final = {"chain": "blocks", "state": "history"}


@click.command(short_help="Say how a running node is.")
@click.option(
    "--url",
    metavar="URL",
    help=f"Where the node is; http:// may be left out.  [env: {URL_ENVIRONMENT}, else SVC_HOST and SVC_PORT; "
    f"default: {DEFAULT_URL}]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    metavar="SECONDS",
    help="How long to wait for each answer.  [default: 5]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(url: str | None, timeout: float, as_json: bool) -> int:
    """Say how a running node is: whether it is ready, its tips, how far it is behind, and what is wrong.

    Exit code 0 when nothing is wrong, 1 otherwise: also when it does not answer, or is not ready.
    """
    found = _ask(url_of(url).rstrip("/"), timeout)
    if as_json:
        say(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        for name, value in _lines(found):
            say(f"{name:<18}{value}".rstrip(), colour=_colour_of(name, value))
    return 0 if found["ok"] and found["ready"] else 1


def _ask(url: str, timeout: float) -> dict[str, Any]:
    health, code = get_json(f"{url}/status", timeout)
    if code not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        raise StartError(f"{url} is no node: GET /status answered HTTP {code}")
    readiness, ready_code = get_json(f"{url}/readyz", timeout)
    # The network's other nodes have /status only.
    is_ready = (code if ready_code == HTTPStatus.NOT_FOUND else ready_code) == HTTPStatus.OK
    found: dict[str, Any] = {"url": url, "ok": code == HTTPStatus.OK, "ready": is_ready}
    if isinstance(readiness, dict) and "reason" in readiness:
        found["notReady"] = readiness["reason"]
    if isinstance(health, dict):  # a node of another make answers text
        found["components"] = health.get("components", {})
        found["notes"] = health.get("notes", {})
    key = os.environ.get(KEY_ENVIRONMENT)
    headers = {"x-api-key": key} if key else {}
    for name, method in (("tips", "node_getL2Tips"), ("sync", "fastnode_getSyncStatus")):
        answer = call(url, method, [], headers, timeout)
        if "result" in answer:
            found[name] = answer["result"]
    return found


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    state = "ready" if found["ready"] else f"not ready: {found.get('notReady', 'GET /readyz says no')}"
    lines = [("node", found["url"]), ("state", state)]
    lines += [(f"{name} tip", str(number)) for name, number in _tip_numbers(found.get("tips", {}))]
    sync = found.get("sync")
    if sync is not None:
        lines.append(("sync", sync["state"] if sync["reason"] is None else f"{sync['state']}: {sync['reason']}"))
        if sync.get("lagBlocks") is not None:
            speed = _speed(sync.get("catchingUp"), "blocks")
            lines.append(("behind", f"{sync['lagBlocks']} blocks{speed}"))
        lines += _derivation_lines(sync.get("derivation"))
    components = found.get("components", {})
    lines += [(_NAMES.get(name, name), part["state"]) for name, part in components.items() if "state" in part]
    lines += [("note", f"{name}: {note}") for name, note in found.get("notes", {}).items()]
    wrong = [(name, part) for name, part in components.items() if not part["ok"]]
    lines += [("wrong", f"{name}: {part['reason']}") for name, part in wrong]
    if not found["ok"] and not wrong:
        lines.append(("wrong", "GET /status says so"))
    return lines


def _colour_of(name: str, value: str) -> str | None:
    if name == "state":
        return "green" if value == "ready" else "red"
    return {"wrong": "red", "note": "yellow"}.get(name)


def _derivation_lines(derivation: dict[str, Any] | None) -> list[tuple[str, str]]:
    progress = None if derivation is None else derivation.get("progress")
    if progress is None:
        return []
    where = f"checkpoint {progress['checkpoint']} of {progress['ofCheckpoint']}"
    l1 = f"L1 block {progress['l1Block']} of {progress['ofL1Block']}"
    return [("derivation", f"{where}, {l1}{_speed(progress, 'checkpoints')}")]


def _speed(progress: dict[str, Any] | None, unit: str) -> str:
    """Rate and time left, as far as the node tells them."""
    if progress is None:
        return ""
    rate, left = progress.get(f"{unit}PerSecond"), progress.get("etaSeconds")
    return ("" if rate is None else f", {rate:g} a second") + ("" if left is None else f", {duration(left)} left")


def _tip_numbers(tips: dict[str, Any]) -> list[tuple[str, int]]:
    """Blocks of the tips: the proposed one stands alone, the others are inside of a checkpoint's."""
    return [(name, tips[name].get("block", tips[name])["number"]) for name in _TIPS if name in tips]
