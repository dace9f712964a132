"""The watch over validators of a node: statistics, offenses, and another node's admin port, as the settings ask.

Statistics are kept where the settings ask for them.  Offenses are looked for there, and wherever L1 tells who is drawn,
unless the operator has no use for validators at all (--validator-disabled).  Inactivity is what statistics show.

watch = ValidatorWatch(settings, is_ready=...)
watch.open(directory, chain, configuration)      # once the chain is known
watch.on_committed(...)                          # from the thread that ingests
watch.close()                                    # before the chain's databases are closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastnode.api.slashing import Slashing
from fastnode.app.ground.effects import connect_offenses
from fastnode.archiver.queries import ChainInfo
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import DatabaseError
from fastnode.log import log_facts
from fastnode.sentinel.offenses import ALL, Offense, OffenseType, RoundSize
from fastnode.view import Committed, View

if TYPE_CHECKING:
    from fastnode.outgoing.admin_questions import AdminQuestions
    from fastnode.p2p.messages.proposals import CheckpointAttestation
    from fastnode.sentinel.offense_store import OffenseStore
    from fastnode.sentinel.sentinel import CommitteeOf, ProposerOf, Sentinel
    from fastnode.sentinel.watch import OffenseThread, OffenseWatch

__all__ = ["ValidatorWatch"]

logger = logging.getLogger("fastnode.app")

#: Epochs that a node without statistics looks back on for offenses.
_EPOCHS_LOOKED_AT: Final = 2


class ValidatorWatch:
    """SettingError for an invalid URL."""

    def __init__(self, settings: Settings, *, is_ready: Callable[[], bool]) -> None:
        self._settings = settings
        self._is_ready = is_ready
        self._epoch_duration = 1
        self._size = RoundSize(settings.slashing_round_size_in_epochs, settings.slashing_offset_in_rounds)
        self._rounds: Callable[[], tuple[int, int] | None] = lambda: None
        self._store: OffenseStore | None = None
        self._watch: OffenseWatch | None = None
        self._thread: OffenseThread | None = None
        self._sentinel: Sentinel | None = None
        if settings.detects_offenses:
            from fastnode.sentinel.sentinel import Sentinel

            has_statistics = settings.sentinel_enabled
            self._sentinel = Sentinel(
                history_epochs=settings.sentinel_history_length_in_epochs if has_statistics else _EPOCHS_LOOKED_AT,
                proven_epochs=settings.sentinel_historic_proven_performance_length_in_epochs,
                is_ready=is_ready,
            )
            self._sentinel.hears_attestations = settings.p2p_enabled
        url, key = settings.upstream_admin_url, settings.upstream_admin_api_key
        self._other = None if url is None else _admin_questions(url, key)

    def open(self, directory: Path, chain: ChainInfo, configuration: NodeConfiguration) -> None:
        """DataDirectoryError when the offenses that are kept cannot be read."""
        if self._sentinel is None:
            return
        from fastnode.sentinel.offense_store import OFFENSES_DIRECTORY, OffenseStore
        from fastnode.sentinel.watch import OffenseThread, OffenseWatch

        self._epoch_duration = chain.epoch_duration
        self._store = OffenseStore.open(directory / OFFENSES_DIRECTORY, chain.genesis_block_hash)
        self._watch = OffenseWatch(
            self._sentinel,
            configuration,
            self._size,
            self._store,
            judges_inactivity=self._settings.sentinel_enabled,
        )
        self._thread = OffenseThread(self._watch, self._is_ready)
        self._thread.start()
        connect_offenses(configuration)

    def learn_from(
        self,
        committee_of: CommitteeOf,
        proposer_of: ProposerOf,
        rounds: Callable[[], tuple[int, int] | None] = lambda: None,
    ) -> None:
        """L1 says who is drawn, and how rounds are counted: epochs and offset, once it has answered.

        Before :meth:`open`.
        """
        self._rounds = rounds
        self._learn_rounds()
        if self._sentinel is not None:
            self._sentinel.learn_from(committee_of, proposer_of)

    @property
    def sentinel(self) -> Sentinel | None:
        """None: statistics are off."""
        return self._sentinel if self._settings.sentinel_enabled else None

    def hear(self, attestation: CheckpointAttestation) -> None:
        """A peer has sent an attestation that holds."""
        signer = attestation.signer() if self._sentinel is not None else None
        if self._sentinel is not None and signer is not None:
            self._sentinel.hear(attestation.slot, attestation.archive_root, signer)

    def accuse(self, kind: OffenseType, validator: bytes, at: int) -> None:
        """Keep an offense that was seen on the peer-to-peer network, in a slot or an epoch; no-op where offenses are
        not watched."""
        if self._watch is None:
            return
        try:
            self._watch.accuse(kind, validator, at, self._epoch_duration)
        except DatabaseError as error:
            logger.warning("an offense is not kept", extra=log_facts(reason=str(error)))

    @property
    def slashing(self) -> Slashing:
        """Parts that the methods about offenses need."""
        return Slashing(self._watch, self._other, self._size, self._payloads)

    def known(self, view: View | None) -> list[Offense]:
        """All offenses that have not expired."""
        return [] if self._watch is None or view is None else self._watch.offenses(view.chain, ALL)

    def _payloads(self) -> Sequence[dict[str, Any]] | None:
        """None where L1 says that votes are tallied."""
        return () if self._rounds() is None else None

    def _learn_rounds(self) -> None:
        rounds = self._rounds()
        if rounds is not None:
            self._size.learn(*rounds)

    def on_committed(self, committed: Committed) -> None:
        self._learn_rounds()
        if self._thread is not None:
            self._thread.on_committed(committed)

    def faults(self) -> dict[str, str | None]:
        """Fault that keeps the watch from its work, None for nothing."""
        if self._store is None or self._thread is None:
            return {}
        return {"offenses": self._store.fault or self._thread.fault}

    def close(self) -> None:
        """May be called more than once."""
        if self._other is not None:
            self._other.close()
        if self._thread is not None:
            self._thread.close()
        if self._store is not None:
            self._store.close()


def _admin_questions(url: str, key: str | None) -> AdminQuestions:
    from fastnode.outgoing.admin_questions import AdminQuestions

    return AdminQuestions(url, key)
