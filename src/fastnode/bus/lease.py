"""Lease for a task that only one of several nodes does: a value in the key-value store of the bus.

The holder writes it again every second.  Another node takes it when it has seen no new one for three: clocks of
machines are not compared.  Each write names the one that it replaces, so of two that write at a time one fails.  The
holder stops counting on it before another may take it, also while the bus does not answer.
"""

from __future__ import annotations

from typing import Final

import orjson

from fastnode.bus.connection import Bus, Message, Outgoing
from fastnode.bus.subjects import BUS_VERSION, Subjects

__all__ = ["Lease"]

LEASE_S: Final = 3.0
MARGIN_S: Final = 1.0
RENEW_S: Final = 1.0


class Lease:
    """Lease of one task.  ``tick`` is called again and again, from one thread; the rest from any."""

    def __init__(self, bus: Bus, subjects: Subjects, task: str) -> None:
        self._bus = bus
        self._stream = subjects.bucket
        self._subject = subjects.value(f"lease.{task}")
        self._name = bus.options.name
        self._now = bus.clock.monotonic
        self._held_until = 0.0
        self._renew_at = 0.0
        self._seen: int | None = None
        self._seen_at = 0.0
        self._rests_until = 0.0
        #: The name that was read last.
        self.holder: str | None = None

    @property
    def is_held(self) -> bool:
        return self._now() < self._held_until

    def tick(self) -> bool:
        """Take it, or keep it, if that is possible; whether it is held.  UpstreamUnavailable."""
        now = self._now()
        if now < self._rests_until or (self.is_held and now < self._renew_at):
            return self.is_held
        message = self._bus.last(self._stream, self._subject)
        self.holder = _holder_in(message)
        sequence = 0 if message is None else message.sequence
        if sequence != self._seen:
            self._seen, self._seen_at = sequence, now
        if self.holder == self._name or self.holder is None or now - self._seen_at >= LEASE_S:
            self._write(sequence, self._name)
        return self.is_held

    def give_up(self, rest_s: float) -> None:
        """Let another node have it, and do not ask for it for a while.  UpstreamUnavailable."""
        self._held_until = 0.0
        self._rests_until = self._now() + rest_s
        message = self._bus.last(self._stream, self._subject)
        if message is not None and _holder_in(message) == self._name:
            self._write(message.sequence, None)

    def _write(self, replaced: int, holder: str | None) -> None:
        begun = self._now()
        data = orjson.dumps({"version": BUS_VERSION, "holder": holder})
        written = self._bus.publish(Outgoing(self._subject, data, expected=replaced))
        if written is None or holder is None:
            return
        self.holder = holder
        self._seen, self._seen_at = written, begun
        self._held_until = begun + LEASE_S - MARGIN_S
        self._renew_at = begun + RENEW_S


def _holder_in(message: Message | None) -> str | None:
    """Name in the lease; None if nobody holds it, or if the message is no lease."""
    try:
        value = {} if message is None else orjson.loads(message.data)
    except orjson.JSONDecodeError:
        return None
    holder = value.get("holder") if isinstance(value, dict) else None
    return holder if isinstance(holder, str) else None
