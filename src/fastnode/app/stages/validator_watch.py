"""The watch over validators of a node: statistics, offenses, and another node's admin port, as the settings ask.

Statistics are kept where the settings ask for them.  Offenses are looked for there, and wherever L1 tells who is drawn,
unless the operator has no use for validators at all (--validator-disabled).  Inactivity is what statistics show.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastnode.api.slashing import Slashing
from fastnode.app.ground.part import Part
from fastnode.archiver.queries import ChainInfo
from fastnode.config.config_keys import OFFENSES
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import DatabaseError
from fastnode.log import log_facts
from fastnode.sentinel.offenses import ALL, Offense, OffenseType, RoundSize
from fastnode.view import Committed, View

if TYPE_CHECKING:
    from fastnode.outgoing.admin_questions import AdminQuestions
    from fastnode.p2p.messages.proposals import CheckpointAttestation
    from fastnode.sentinel.sentinel import Sentinel
    from fastnode.serving.server import RpcServer
    from fastnode.sources.l1.service import L1Reader

__all__ = ["OffenseDetection", "ValidatorWatch"]

logger = logging.getLogger("fastnode.app")

#: Epochs that a node without statistics looks back on for offenses.
_EPOCHS_LOOKED_AT: Final = 2


class ValidatorWatch(Part):
    """Nothing of its own is watched; another node's admin port may be asked.  SettingError for an invalid URL."""

    #: Statistics of validators; None: they are off.
    sentinel: Sentinel | None = None

    def __init__(self, settings: Settings, l1: L1Reader | None) -> None:
        """``l1`` says how rounds are counted, once it has answered, and who is drawn; None: L1 is not read."""
        self._size = RoundSize(settings.slashing_round_size_in_epochs, settings.slashing_offset_in_rounds)
        self._rounds: Callable[[], tuple[int, int] | None] = (lambda: None) if l1 is None else l1.slashing_rounds
        self._learn_rounds()
        url, key = settings.upstream_admin_url, settings.upstream_admin_api_key
        self._other = None if url is None else _admin_questions(url, key)

    def hear(self, attestation: CheckpointAttestation) -> None:
        """A peer has sent an attestation that holds."""

    def accuse(self, kind: OffenseType, validator: bytes, at: int) -> None:
        """Keep an offense that was seen on the peer-to-peer network, in a slot or an epoch; no-op where offenses are
        not watched."""

    @property
    def slashing(self) -> Slashing:
        """Parts that the methods about offenses need."""
        return Slashing(None, self._other, self._size, self._payloads)

    def known(self, view: View | None) -> list[Offense]:
        """All offenses that have not expired."""
        return []

    def _payloads(self) -> Sequence[dict[str, Any]] | None:
        """None where L1 says that votes are tallied."""
        return () if self._rounds() is None else None

    def _learn_rounds(self) -> None:
        rounds = self._rounds()
        if rounds is not None:
            self._size.learn(*rounds)

    def on_committed(self, committed: Committed) -> None:
        self._learn_rounds()

    def close(self) -> None:
        if self._other is not None:
            self._other.close()


class OffenseDetection(ValidatorWatch):
    """Offenses that this node finds itself, and the statistics of validators where ``--sentinel-enabled`` is given.

    ``now`` is the time of the chain in seconds.  SettingError for an invalid URL; DataDirectoryError when the stored
    offenses cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        l1: L1Reader | None,
        *,
        directory: Path,
        chain: ChainInfo,
        configuration: NodeConfiguration,
        is_ready: Callable[[], bool],
        is_confirmed: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        from fastnode.sentinel.offense_store import OFFENSES_DIRECTORY, OffenseStore
        from fastnode.sentinel.sentinel import Sentinel
        from fastnode.sentinel.watch import OffenseThread, OffenseWatch

        super().__init__(settings, l1)
        has_statistics = settings.sentinel_enabled
        self._epoch_duration = chain.epoch_duration
        self._sentinel = Sentinel(
            history_epochs=settings.sentinel_history_length_in_epochs if has_statistics else _EPOCHS_LOOKED_AT,
            proven_epochs=settings.sentinel_historic_proven_performance_length_in_epochs,
            is_ready=is_ready,
            now=now,
        )
        self._sentinel.hears_attestations = settings.p2p_enabled
        if l1 is not None:
            self._sentinel.learn_from(l1.committees.committee_of, l1.committees.proposer_of)
        self.sentinel = self._sentinel if has_statistics else None
        self._store = OffenseStore.open(directory / OFFENSES_DIRECTORY, chain.genesis_block_hash)
        self._watch = OffenseWatch(
            self._sentinel,
            configuration.attach(OFFENSES),
            self._size,
            self._store,
            judges_inactivity=has_statistics,
        )
        self._thread = OffenseThread(self._watch, lambda: is_ready() and is_confirmed())

    def start(self, public: RpcServer) -> None:
        self._thread.start()

    def hear(self, attestation: CheckpointAttestation) -> None:
        signer = attestation.signer()
        if signer is not None:
            self._sentinel.hear(attestation.slot, attestation.archive_root, signer)

    def accuse(self, kind: OffenseType, validator: bytes, at: int) -> None:
        try:
            self._watch.accuse(kind, validator, at, self._epoch_duration)
        except DatabaseError as error:
            logger.warning("an offense is not kept", extra=log_facts(reason=str(error)))

    @property
    def slashing(self) -> Slashing:
        return Slashing(self._watch, self._other, self._size, self._payloads)

    def known(self, view: View | None) -> list[Offense]:
        return [] if view is None else self._watch.offenses(view.chain, ALL)

    def on_committed(self, committed: Committed) -> None:
        super().on_committed(committed)
        self._thread.on_committed(committed)

    def faults(self) -> Mapping[str, str | None]:
        return {"offenses": self._store.fault or self._thread.fault}

    def close(self) -> None:
        super().close()
        self._thread.close()
        self._store.close()


def _admin_questions(url: str, key: str | None) -> AdminQuestions:
    from fastnode.outgoing.admin_questions import AdminQuestions

    return AdminQuestions(url, key)
