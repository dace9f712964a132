"""Blobs of a checkpoint from several sources, each blob proven by its data alone.

    0  what this node has published itself
    1  file stores          in random order
    2  consensus clients    in the order given
    3  file stores again    three more rounds, near the tip of the chain only: others may still be uploading
    4  archives             in the order given

Only what is still missing is asked for.  Everything that comes is named from its data (:mod:`.naming`); what is not
one of the blobs asked for is dropped, and a source that gives nothing else is named and rests for a while.

Blobs whose commitments are known are taken for what their source says, and verified by the caller with many others.
If that fails they are asked for again without commitments, so that it is found out who lies.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field
from typing import Any, Final

from fastnode.errors import BlobsUnavailable, FastnodeError
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.outgoing.answer_room import LargeOnesByTurns
from fastnode.outgoing.health import EndpointHealth, EndpointState, Patience
from fastnode.outgoing.quoting import is_same_reason
from fastnode.protocol.kzg import blob_commitment
from fastnode.records import dataclass
from fastnode.sources.blobs.base import BlobRequest, BlobSource, BlobSourceError, GivenBlob
from fastnode.sources.blobs.file_store import FileStore
from fastnode.sources.blobs.naming import BlobNaming

__all__ = ["BlobFetcher", "BlobSources", "FetchPatience"]

logger = logging.getLogger(__name__)

#: A generator of its own: the module's belongs to the program, which may have seeded it.
_CHANCE: Final = random.Random()
#: Blobs of one answer that are looked at.
CANDIDATES_MAX: Final = 64
#: Seconds between two signs that the store that is written is kept.
_HEALTH_INTERVAL_S: Final = 3_600.0
#: Pauses between checks of a source that could not be reached.
_REACH_PATIENCE: Final = Patience(unavailable_s=5.0, unavailable_max_s=300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPatience:
    """Times in seconds: between tries after a broken connection, and between rounds through the file stores."""

    retries_s: tuple[float, ...] = (1.0, 1.0, 3.0)
    store_rounds_s: tuple[float, ...] = (1.0, 1.0, 2.0)
    #: For how long a source that gave wrong blobs rests: it may be the only one, and behave again.
    lie_rest_s: float = 5.0


@dataclass(frozen=True, slots=True)
class BlobSources:
    """Configured sources.  ``upload`` is written to, never read; ``own``: what this node has published itself."""

    stores: tuple[FileStore, ...] = ()
    consensus: tuple[BlobSource, ...] = ()
    #: Asked last.
    archives: tuple[BlobSource, ...] = ()
    upload: FileStore | None = None
    own: BlobSource | None = None

    @property
    def all(self) -> tuple[BlobSource, ...]:
        """Sources that have the blobs of others."""
        return (*self.stores, *self.consensus, *self.archives)


@dataclass(slots=True)
class _Health:
    """Health of one source.  Counts are of blobs, but for ``failures``."""

    given: int = 0
    refused: int = 0
    failures: int = 0
    reason: str | None = None
    usable_at: float = 0.0
    #: Whether it can be reached: if not, others are asked before it until a check in the background reaches it.
    reach: EndpointHealth = field(default_factory=lambda: EndpointHealth(_REACH_PATIENCE))
    #: True while a check is under way.
    is_checked: bool = False

    @property
    def is_unreachable(self) -> bool:
        return self.reach.state is EndpointState.UNAVAILABLE


@dataclass(slots=True)
class _Search:
    """One checkpoint's blobs so far, by versioned hash."""

    request: BlobRequest
    name_of: Callable[[bytes], bytes]
    found: dict[bytes, bytes] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> BlobRequest:
        return self.request.without(list(self.found))

    @property
    def is_complete(self) -> bool:
        return all(item in self.found for item in self.request.versioned_hashes)

    def take(self, blob: GivenBlob) -> bool:
        """Keep a blob; False unless it was asked for and not there yet: its hash is computed from its data, unless its
        commitment is known."""
        wanted = self.missing.versioned_hashes
        try:
            is_for_now = blob.said_to_be is not None and blob.said_to_be in self.request.commitments
            found = blob.said_to_be if is_for_now else self.name_of(blob.data)
        except ValueError:
            return False
        if found not in wanted:
            return False
        self.found[found] = blob.data
        return True


class BlobFetcher:
    """Usable from any thread.  ``executor`` uploads; ``sleep`` waits, and returns whether to go on.

    ``computed_at_once`` bounds the blobs that are being named, each of which takes a whole core.
    """

    def __init__(
        self,
        sources: BlobSources,
        executor: Executor,
        *,
        patience: FetchPatience | None = None,
        sleep: Callable[[float], bool] | None = None,
        computed_at_once: int = 1,
    ) -> None:
        self._sources = sources
        self._executor = executor
        self._patience = patience or FetchPatience()
        self._sleep = sleep or _sleep
        self._lock = threading.Lock()
        self._naming = BlobNaming(computed_at_once)
        #: For answers of any provider that are asked for beside one another.
        self.turns = LargeOnesByTurns()
        known = (*sources.all, *(() if sources.own is None else (sources.own,)))
        self._health = {source.name: _Health() for source in known}
        self._setbacks = Setbacks("a place of blobs gives what makes no sense")
        self._signed_at: float | None = None
        self.blob_count = 0
        self.byte_count = 0

    @property
    def sources(self) -> BlobSources:
        return self._sources

    def fetch(self, request: BlobRequest, *, near_tip: bool) -> list[bytes]:
        """The blobs in the order of their hashes, zeros at their ends left out; BlobsUnavailable.

        Those of ``request.commitments`` are not proven: :meth:`are_proven`, and then :meth:`hand_on`.
        """
        search = _Search(request, self._naming.versioned_hash_of)
        if self._sources.own is not None:
            self._ask(search, self._sources.own)
        self._ask_all(search, _CHANCE.sample(self._sources.stores, len(self._sources.stores)))
        self._ask_all(search, self._sources.consensus)
        if near_tip and self._sources.stores:
            for pause in self._patience.store_rounds_s:
                if search.is_complete or not self._sleep(pause):
                    break
                self._ask_all(search, self._sources.stores)
        self._ask_all(search, self._sources.archives)
        if not search.is_complete:
            tried = [f"{name}: {outcome}" for name, outcome in search.tried.items()]
            raise BlobsUnavailable(request.checkpoint, len(search.missing.versioned_hashes), tried)
        blobs = [search.found[item] for item in request.versioned_hashes]
        with self._lock:
            self.blob_count += len(blobs)
            self.byte_count += sum(map(len, blobs))
        self._upload({item: blob for item, blob in search.found.items() if item not in request.commitments})
        return blobs

    def are_proven(self, claims: Sequence[tuple[bytes, bytes]]) -> bool:
        """True if in each (commitment of 48 bytes, blob) the blob is that of the commitment."""
        return self._naming.are_commitments(claims)

    def hand_on(self, blobs: Mapping[bytes, bytes]) -> None:
        """Upload blobs, by their versioned hashes, that were made of blocks that are here, or proven afterwards."""
        self._upload(dict(blobs))

    @property
    def together_count(self) -> int:
        """Blobs that were verified with others."""
        return self._naming.together_count

    @property
    def has_upload(self) -> bool:
        return self._sources.upload is not None

    def check(self) -> dict[str, str]:
        """The reason for each source that cannot be reached."""
        reasons = {}
        for source in self._sources.all:
            try:
                source.check()
            except BlobSourceError as error:
                reasons[source.name] = str(error)
                self._on_unreachable(source, str(error))
            except FastnodeError:
                raise
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._setbacks.note(error)
                reasons[source.name] = f"its answer makes no sense ({type(error).__name__})"
        return reasons

    def describe(self) -> list[dict[str, Any]]:
        """For status reports."""
        return [
            {
                "name": name,
                "ok": health.reason is None,
                "reason": health.reason,
                "blobs": health.given,
                "wrongBlobs": health.refused,
                "failures": health.failures,
            }
            for name, health in self._health.items()
        ]

    # ---- one source after the other --------------------------------------------------------------

    def _ask_all(self, search: _Search, sources: Sequence[BlobSource]) -> None:
        # Those that cannot be reached come last, so that a silent one delays nothing that others have.
        reachable = [source for source in sources if not self._health[source.name].is_unreachable]
        others = [source for source in sources if source not in reachable]
        for source in others:
            self._check_later(source)
        for place, source in enumerate((*reachable, *others)):
            if search.is_complete:
                return
            self._ask(search, source, has_others=place < len(reachable) - 1)

    def _check_later(self, source: BlobSource) -> None:
        """See in the background whether a source can be reached again."""
        health = self._health[source.name]
        with self._lock:
            if health.is_checked or health.reach.is_resting:
                return
            health.is_checked = True
        try:
            self._executor.submit(self._check, source)
        except RuntimeError:  # the node is stopping
            health.is_checked = False

    def _check(self, source: BlobSource) -> None:
        health = self._health[source.name]
        try:
            source.check()
        except BlobSourceError as error:
            self._on_unreachable(source, str(error))
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)
            self._on_unreachable(source, f"its answer makes no sense ({type(error).__name__})")
        else:
            health.reach.on_identified()
        finally:
            health.is_checked = False

    def _on_unreachable(self, source: BlobSource, reason: str) -> None:
        self._health[source.name].reach.on_unavailable(reason)
        self._note(source, reason)

    def _ask(self, search: _Search, source: BlobSource, *, has_others: bool = False) -> None:
        health = self._health[source.name]
        if time.monotonic() < health.usable_at:
            search.tried.setdefault(source.name, f"rests: {health.reason}")
            return
        try:
            given, refused = self._with_retries(search, source, retries=not has_others and not health.is_unreachable)
        except BlobSourceError as error:
            search.tried[source.name] = str(error)
            if error.is_passing and error.status is None:
                self._on_unreachable(source, str(error))
                health.reach.on_useless(error)  # so that a check it passes does not shorten the next pause
            else:
                self._note(source, str(error))
            return
        except FastnodeError:
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)
            health.failures += 1
            search.tried[source.name] = f"its answer makes no sense ({type(error).__name__})"
            self._note(source, search.tried[source.name])
            return
        self._setbacks.end()
        health.reach.on_identified()
        health.reach.on_useful()
        health.given += given
        health.refused += refused
        if given or not refused:
            search.tried[source.name] = f"it has {given} of them" if given else "it does not have them"
            self._note(source, None)
            return
        health.usable_at = time.monotonic() + self._patience.lie_rest_s
        reason = f"it gave {refused} blobs, none of which has a hash that was asked for"
        search.tried[source.name] = reason
        self._note(source, reason)

    def _with_retries(self, search: _Search, source: BlobSource, *, retries: bool) -> tuple[int, int]:
        """Blobs that were kept, and others.  Without ``retries`` there are others to ask before it is asked again."""
        counts = [0, 0]

        def take() -> None:
            for blob in itertools.islice(source.fetch(search.missing), CANDIDATES_MAX):
                counts[not search.take(blob)] += 1
                if search.is_complete:
                    break

        pauses = [*self._patience.retries_s] if retries else []
        while True:
            try:
                self.turns.run(take)
                return counts[0], counts[1]
            except BlobSourceError as error:
                self._health[source.name].failures += 1
                if not error.is_passing or not pauses or not self._sleep(pauses.pop(0)):
                    raise

    def _note(self, source: BlobSource, reason: str | None) -> None:
        health = self._health[source.name]
        if not is_same_reason(reason, health.reason):
            if reason is None:
                logger.info("blobs are given again", extra=log_facts(source=source.name))
            else:
                logger.warning("no blobs from a source", extra=log_facts(source=source.name, reason=reason))
        health.reason = reason

    # ---- handing on ------------------------------------------------------------------------------

    def _upload(self, blobs: dict[bytes, bytes]) -> None:
        """Fire and forget: other nodes find there what this one found."""
        if self._sources.upload is not None:
            try:
                self._executor.submit(self._upload_now, self._sources.upload, dict(blobs))
            except RuntimeError:  # the node is stopping
                return

    def _upload_now(self, store: FileStore, blobs: dict[bytes, bytes]) -> None:
        try:
            now = time.monotonic()
            if self._signed_at is None or now - self._signed_at >= _HEALTH_INTERVAL_S:
                store.sign_as_healthy()
                self._signed_at = now
            for item, blob in blobs.items():
                store.upload(item, blob, blob_commitment(blob))
        except BlobSourceError as error:
            logger.warning("blobs are not uploaded", extra=log_facts(store=store.name, reason=str(error)))
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
