"""The nodes of a fleet, in their own words: each writes what it is into the key-value store every two seconds.

What is not written again is gone after half a minute.  Whether a node lives is judged by what is seen to change, so
clocks of machines are not compared.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any, Final

import orjson

from fastnode.bus.connection import Bus, Outgoing, StreamSetup
from fastnode.bus.subjects import BUS_VERSION, Subjects
from fastnode.errors import UpstreamError, UpstreamUnavailable
from fastnode.loop import Loop

__all__ = ["Heartbeat", "Members", "bucket_of"]

HEARTBEAT_S: Final = 2.0
#: A node that has not been seen to write for so long is dead.
DEAD_S: Final = 10.0
KEPT_S: Final = 30.0
#: Time for which an answer stands, in seconds.
FRESH_S: Final = 1.0
_NODE: Final = "node"


def bucket_of(subjects: Subjects) -> StreamSetup:
    """The key-value store."""
    return StreamSetup(name=subjects.bucket, subjects=(subjects.all_values,), age_s=KEPT_S, duplicates_s=KEPT_S)


class Members:
    """Statements of all nodes about themselves.  Usable from any thread."""

    def __init__(self, bus: Bus, subjects: Subjects) -> None:
        self._bus = bus
        self._subjects = subjects
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._values: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, tuple[int, float]] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """By name, as of a moment ago.  UpstreamUnavailable."""
        with self._lock:
            now = self._bus.clock.monotonic()
            if now - self._read_at >= FRESH_S:
                self._read()
                self._read_at = now
            return self._values

    def _read(self) -> None:
        now = self._bus.clock.monotonic()
        if now - self._read_at > DEAD_S / 2:
            # The bus was away, or there was no question: what was seen before says nothing of the time in between.
            self._seen = {name: (sequence, now) for name, (sequence, _) in self._seen.items()}
        values: dict[str, dict[str, Any]] = {}
        for message in self._bus.matching(self._subjects.bucket, self._subjects.value(f"{_NODE}.*")):
            name = message.subject.rpartition(".")[2]
            try:
                value = orjson.loads(message.data)
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict) and value.get("version") == BUS_VERSION:
                values[name] = value
                if self._seen.get(name, (0, 0.0))[0] != message.sequence:
                    self._seen[name] = (message.sequence, now)
        self._values = values

    def is_dead(self, name: str, session: object) -> bool:
        """True if the process of this ``session`` has not been seen to write for a while.  UpstreamUnavailable."""
        value = self.all().get(name)
        if value is None or value.get("session") != session:
            return True
        return self._bus.clock.monotonic() - self._seen[name][1] > DEAD_S


class Heartbeat:
    """Writes ``describe()`` in a thread of its own, until it is closed."""

    def __init__(self, bus: Bus, subjects: Subjects, describe: Callable[[], dict[str, Any]]) -> None:
        self._bus = bus
        self._subjects = subjects
        self._describe = describe
        self._is_set_up = False
        #: Id of this process: one that starts again under the same name has another.
        self.session = secrets.token_hex(8)
        #: Reason why the last heartbeat did not go out although the bus is there.
        self._reason: str | None = None
        self._loop = Loop(
            "fastnode-heartbeat", self._beat, what="this node does not tell the fleet how it is", clock=bus.clock
        )

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        self._loop.close()

    @property
    def trouble(self) -> str | None:
        return self._loop.trouble or self._reason

    def _beat(self) -> float:
        try:
            self._write()
            self._reason = None
        except UpstreamUnavailable:
            self._is_set_up = False  # /status says that the bus is away
        except UpstreamError as error:
            self._is_set_up, self._reason = False, str(error)
        return HEARTBEAT_S

    def _write(self) -> None:
        if not self._is_set_up:
            self._bus.set_up(bucket_of(self._subjects))
            self._is_set_up = True
        value = {"version": BUS_VERSION, "session": self.session} | self._describe()
        subject = self._subjects.value(f"{_NODE}.{self._bus.options.name}")
        self._bus.publish(Outgoing(subject, orjson.dumps(value)))
