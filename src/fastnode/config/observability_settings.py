"""The settings of what the node tells monitoring systems."""

from __future__ import annotations

from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer
from fastnode.values.texts import Text

__all__ = ["ObservabilitySettings"]

METRICS = "Metrics"
EXPLORER = "Explorer"

_PORT_MAX = 65_535


@dataclass(frozen=True, kw_only=True)
class ObservabilitySettings:
    explorer_port: int | None = setting(
        None,
        Integer(0, _PORT_MAX),
        EXPLORER,
        "Port on which the explorer of the status page is for everybody, read-only and without a key, at the address "
        "of --host; 0 takes any free one.",
    )
    metrics_port: int = setting(
        9464,
        Integer(0, _PORT_MAX),
        METRICS,
        "Port on which GET /metrics answers in the text form of Prometheus; 0: none. If it is taken the node warns and "
        "goes on without.",
    )
    metrics_host: str = setting(
        "127.0.0.1",
        Text(metavar="ADDRESS"),
        METRICS,
        "Address the metrics port listens on.",
    )
    metrics_reference_names: bool = setting(
        False,
        Boolean(),
        METRICS,
        "Offer what the network's reference node measures too, under its names.",
    )
