"""The health of the node, from the reports of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fastnode.http.health import Health
from fastnode.view import View

__all__ = ["health_of"]


def health_of(
    view: View | None,
    sync: Mapping[str, Any] | None,
    *,
    is_ready: bool,
    is_stopping: bool,
    is_importing: bool = False,
    no_traffic: str | None = None,
    faults: Mapping[str, str | None] = MappingProxyType({}),
    troubles: Mapping[str, str | None] = MappingProxyType({}),
    notes: Mapping[str, str] = MappingProxyType({}),
    states: Mapping[str, str] = MappingProxyType({}),
) -> Health:
    """``sync`` says how the chain is followed, None if it is not; ``is_ready``, whether it is new enough;
    ``is_importing``, whether a chain file is still loaded; ``no_traffic``, the reason that a chain that is complete
    should get no requests, None for none.

    ``faults`` is what keeps parts that work in the background from their work, None for nothing: a node with one of
    them is not ready.  ``troubles`` are for an operator to look at; the node goes on serving.  ``notes`` is what an
    operator has chosen, and should see; ``states``, how parts are, also those without a fault.
    """
    components = {
        **faults,
        **troubles,
        "chain": "no chain yet" if view is None else None,
        "state": "the state is being brought up to the chain" if view is not None and view.state is None else None,
        "stop": "the node is stopping" if is_stopping else None,
    }
    if sync is not None:
        components["sync"] = str(sync["reason"]) if sync["state"] == "degraded" else None
        l1 = sync.get("l1")
        if l1 is not None:
            components["l1"] = l1["reason"]
    fault = next(filter(None, faults.values()), None)
    not_ready = components["stop"] or components["chain"] or components["state"] or fault
    if not_ready is None and view is not None and is_importing:
        not_ready = f"the chain file is being loaded: it is at block {view.chain.tip_number}"
    if not_ready is None and not is_ready:
        not_ready = f"the chain is not new enough yet{_distance(sync or {})}"
    not_ready = not_ready or no_traffic
    return Health(components=components, not_ready=not_ready, notes=notes, states=states)


def _distance(sync: Mapping[str, Any]) -> str:
    """Reason that the chain is not new enough, to append to the message that says so; empty while nothing is known."""
    if sync.get("reason"):
        return f": {sync['reason']}"
    if sync.get("sourceTip") is None:
        return ""
    return f": it is at block {sync['tip']} of {sync['sourceTip']}"
