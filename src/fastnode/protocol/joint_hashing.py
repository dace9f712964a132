"""Hashing long runs of fields from several threads at once.

A sponge is one chain of permutations: the hash of a transaction's 2,784 fields takes milliseconds, whatever
the processor could do beside it.  Where the kernel has lanes, eight such hashes take hardly longer than one.
So callers that come while a hash is being computed wait for it and then go together; one that comes alone
does not wait for anybody.
"""

from __future__ import annotations

import threading
from typing import Final

from fastnode.kernels import poseidon2
from fastnode.protocol.fields import FIELD_BYTES

__all__ = ["RUNS_MAX", "JointHasher"]

#: More runs than this at a time make each of them wait without getting cheaper.
RUNS_MAX: Final = 16


class _Job:
    """One caller's run.  It wakes once: with its hash, or without one, to lead the next round."""

    __slots__ = ("_asleep", "fields", "hash")

    def __init__(self, fields: bytes) -> None:
        self.fields = fields
        self.hash: bytes | None = None
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def sleep(self) -> None:
        self._asleep.acquire()

    def wake(self) -> None:
        self._asleep.release()


class JointHasher:
    """Hashes runs of one length, from any thread.

    One caller at a time leads: it hashes what has gathered, appoints the next leader among those that came
    meanwhile, and only then wakes the others, so that nobody waits for somebody to wake up first.
    """

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._lock = threading.Lock()
        self._queue: list[_Job] = []
        self._is_led = False

    def hash(self, fields: bytes) -> bytes:
        """Hash of the run, whose fields must be below the modulus; ValueError for a run of another length."""
        if len(fields) != self._arity * FIELD_BYTES:
            raise ValueError(f"{len(fields)} bytes, expected {self._arity * FIELD_BYTES}")
        job = _Job(fields)
        with self._lock:
            self._queue.append(job)
            must_wait, self._is_led = self._is_led, True
        if must_wait:
            job.sleep()
        if job.hash is None:
            self._lead(job)
        assert job.hash is not None
        return job.hash

    def _lead(self, own: _Job) -> None:
        with self._lock:
            self._queue.remove(own)
            jobs = [own, *self._queue[: RUNS_MAX - 1]]
            del self._queue[: RUNS_MAX - 1]
        try:
            self._run(jobs)
        finally:
            with self._lock:
                self._is_led = bool(self._queue)
                if self._queue:
                    self._queue[0].wake()
            for job in jobs[1:]:
                if job.hash is not None:
                    job.wake()

    def _run(self, jobs: list[_Job]) -> None:
        """Hash all of them; the first alone if the kernel refuses one: each owner learns of its own fault."""
        try:
            hashes = poseidon2.hash_runs(b"".join([job.fields for job in jobs]), self._arity)
        except (ValueError, MemoryError):
            with self._lock:
                self._queue[:0] = jobs[1:]
            jobs[0].hash = poseidon2.hash_fields(jobs[0].fields)
            return
        for index, job in enumerate(jobs):
            job.hash = hashes[index * FIELD_BYTES : (index + 1) * FIELD_BYTES]
