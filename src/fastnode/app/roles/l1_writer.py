"""Signing, paying and writing to L1, once for the sequencer and the prover of a node."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastnode.app.ground.part import Part
from fastnode.config.config_keys import SIGNING
from fastnode.errors import StartError
from fastnode.files import make_folder
from fastnode.kernels import encode
from fastnode.keystore.from_settings import keystore_of_settings, names_keys
from fastnode.keystore.keys import NO_KEYS
from fastnode.log import log_facts
from fastnode.outgoing.network import Network
from fastnode.protocol.fields import hex_text
from fastnode.protocol.kzg_proofs import load_setup
from fastnode.publishing.account import WatchLimits
from fastnode.publishing.envelope import SidecarForm, sidecar_form_of
from fastnode.publishing.fees import FeeLimits
from fastnode.publishing.publishers import Publishers
from fastnode.publishing.signing import SigningDoor
from fastnode.sequencing.l1_publication import KeyDoor, L1Publication
from fastnode.sequencing.slot_guard import SlotGuard
from fastnode.sources.blobs.own import OWN_BLOBS, OwnBlobs
from fastnode.sources.l1.rollup import RollupFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from fastnode.app.stages.core import Core
    from fastnode.config.configuration import ConfigView
    from fastnode.config.settings import Settings
    from fastnode.ha.duties import DutyLocks
    from fastnode.keystore.keys import Keystore
    from fastnode.keystore.private_keys import Signer
    from fastnode.serving.server import RpcServer

__all__ = ["L1Writer"]

logger = logging.getLogger("fastnode.app")

_WEI_PER_ETH: Final = 10**18
_DIRECTORY: Final = "publishing"


class L1Writer(Part):
    """StartError, KeystoreError or HaDatabaseError where it cannot sign or pay."""

    def __init__(self, core: Core) -> None:
        foundation = core.foundation
        settings, chain = foundation.settings, foundation.data.store.chain
        self.reader = reader = core.source.l1_to_write_to("--sequencer" if settings.sequencer else "--prover-node")
        self._hand_on = core.source.hand_on_blobs
        self._own_blobs = OwnBlobs(foundation.data.directory.path / OWN_BLOBS)
        self._slot_s = chain.slot_duration
        self._chain_id = chain.l1_chain_id
        self._gas_buffer_percent = settings.l1_gas_limit_buffer_percentage
        self._validators = validators = core.validators
        forwarder = settings.seq_publisher_forwarder_address
        self._forwarder = None if forwarder is None else encode.from_hex(forwarder)
        is_given = validators.keystore is NO_KEYS and names_keys(settings)
        self._from_settings = keystore_of_settings(settings) if is_given else NO_KEYS
        rollup = encode.from_hex(chain.node_info["l1ContractAddresses"]["rollupAddress"])
        self._network = Network()
        self._locks = _open_locks(settings)
        self.door = SigningDoor(self._signers, rollup, self._network, self._locks)
        signing = core.configuration.attach(SIGNING, self._on_disabled)
        self.keys = KeyDoor(self.door, self.keystore, lambda: _addresses(signing["disabledValidators"]))
        #: True once what was in flight at the last stop is watched.
        self._is_resumed = False
        directory = foundation.data.directory.path / _DIRECTORY
        make_folder(directory)
        self.guard = SlotGuard(directory / "slot")
        self.attested_guard = SlotGuard(directory / "attested slot")
        self.publishers = Publishers(
            self._accounts(),
            reader.client,
            self.door,
            chain_id=chain.l1_chain_id,
            rollup=rollup,
            fees=FeeLimits.of(settings),
            limits=WatchLimits.of(settings),
            directory=directory,
            allows_busy=settings.seq_publisher_allow_invalid_states,
            balance_min_wei=int(settings.publisher_balance_min_eth * _WEI_PER_ETH),
        )

    # ---- keys ----------------------------------------------------------------------------------

    def keystore(self) -> Keystore:
        """Current keystore; a reload replaces it."""
        found = self._validators.keystore
        return self._from_settings if found is NO_KEYS else found

    def _on_disabled(self, view: ConfigView, _changed: frozenset[str]) -> None:
        disabled = _addresses(view["disabledValidators"])
        own = [address for address in self.keys.own() if address in disabled]
        shown = log_facts(own=" ".join(map(hex_text, own)) or "none", others=len(disabled) - len(own))
        logger.warning("disabled validators changed", extra=shown)

    def _signers(self) -> Mapping[bytes, Signer]:
        return {encode.from_hex(signer.address): signer for signer in self.keystore().signers}

    def _accounts(self) -> list[bytes]:
        """All that pay, as they are at the start; a reload adds none."""
        return [*sorted(self.keys.publishers_of(None)), *self.prover_accounts]

    @property
    def prover_accounts(self) -> list[bytes]:
        """Accounts that pay for proofs; the validators' where none are named."""
        prover = self.keystore().prover
        if prover is not None:
            return [encode.from_hex(signer.address) for signer in prover.publishers]
        return sorted(self.keys.publishers_of(None))

    @property
    def prover_id(self) -> bytes | None:
        """Address that gets the reward of a proof: the keystore's id, else an account; None: there is neither."""
        prover = self.keystore().prover
        if prover is not None:
            return encode.from_hex(prover.id)
        accounts = self.prover_accounts
        return accounts[0] if accounts else None

    # ---- what is made of it --------------------------------------------------------------------

    def for_checkpoints(self, *, signs: bool = True) -> L1Publication:
        """StartError when there is nothing to sign with."""
        if signs and not self.keys.attesters():
            raise StartError(
                "--sequencer: there are no keys to propose with; give --key-store-directory, VALIDATOR_PRIVATE_KEYS, "
                "or WEB3_SIGNER_URL with VALIDATOR_ADDRESSES"
            )
        return L1Publication(
            self.publishers,
            self._facts,
            allowed=self._allowed,
            sign=self.door.sign_message,
            hand_on=self._hand_on,
            keep=self._own_blobs.keep,
            forwarder=self._forwarder,
            gas_buffer_percent=self._gas_buffer_percent,
        )

    def for_proofs(self) -> L1Publication:
        """StartError when no account can pay."""
        if not self.prover_accounts:
            raise StartError(
                "--prover-node: there is no account that pays for proofs; give PROVER_PUBLISHER_PRIVATE_KEYS, or a "
                "prover in --key-store-directory"
            )
        accounts = self.prover_accounts
        return L1Publication(
            self.publishers,
            self._facts,
            allowed=lambda attester: accounts,
            sign=self.door.sign_message,
            gas_buffer_percent=self._gas_buffer_percent,
        )

    def _allowed(self, attester: bytes | None) -> Collection[bytes]:
        return self.keys.publishers_of(attester)

    def _facts(self) -> RollupFacts:
        return self.reader.seen()[0]

    def start(self, public: RpcServer) -> None:
        """Watch what was in flight at the last stop.

        Where blobs need proofs of cells, the setup is loaded now and not when the first block is due.
        """
        if sidecar_form_of(self._chain_id, int(time.time())) is SidecarForm.EIP_7594:
            threading.Thread(target=load_setup, name="fastnode-kzg-setup", daemon=True).start()
        count = self.publishers.start()
        self._is_resumed = True
        if count:
            logger.info("transactions are in flight since before the start", extra=log_facts(count=count))

    def is_settled(self, read_at: int) -> bool:
        """True if nothing is in flight, and L1, which was read up to this time, has no newer transaction of this
        node."""
        accounts = self.publishers.all
        return self._is_resumed and not any(each.in_flight or each.mined_at > read_at for each in accounts)

    def tidy(self) -> None:
        """Free duties of this node that were begun and never finished, and forget those that are old enough."""
        self.door.clean_up(self._slot_s)

    def stop(self) -> None:
        """No thread waits for L1 any longer; what is in flight stays on disk.  May be called more than once."""
        self.publishers.close()

    def close(self) -> None:
        self.publishers.close()
        self._network.close()
        if self._locks is not None:
            self._locks.close()

    # ---- reports -------------------------------------------------------------------------------

    def faults(self) -> Mapping[str, str | None]:
        """Fault that keeps this node from signing at all."""
        return {"signed slots": self.guard.fault or self.attested_guard.fault}

    def troubles(self) -> Mapping[str, str | None]:
        return self.publishers.troubles()

    def describe(self) -> Mapping[str, Any]:
        return {"publishing": self._describe()}

    def _describe(self) -> dict[str, Any]:
        door = self.door
        return {
            "publishers": self.publishers.describe(),
            "signing": {
                "keys": len(door.addresses),
                "isShared": door.is_shared,
                "signed": dict(door.signed),
                "yielded": dict(door.yielded),
                "failed": dict(door.failed),
            },
        }

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.publishing import publishing_metrics

        return publishing_metrics(self._describe())


def _addresses(texts: Iterable[str]) -> frozenset[bytes]:
    return frozenset(map(encode.from_hex, texts))


def _open_locks(settings: Settings) -> DutyLocks | None:
    if not settings.validator_ha_signing_enabled:
        return None
    # On demand: the driver of PostgreSQL is an extra.
    from fastnode.ha.duties import DutyLocks

    return DutyLocks.of(settings)
