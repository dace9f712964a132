"""The node's validators: loaded from the keystore at the start, reloaded on request.

What a reload takes over and what it does not (service specification, nodeAdmin_reloadKeystore):

    taken over      attester keys, added, removed or replaced; coinbase, fee recipient and publishers of each validator
    not taken over  the L1 publishers themselves, the prover's keys, the connections to the signing database

Before anything is taken over, remote signers must answer and hold the addresses that name them.

A validator may only name publishers that were there at the start.  One that names none publishes with its
attester key, a new one too: the specification says so, where release 4.x refuses it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.config.configuration import NodeConfiguration
from fastnode.errors import KeystoreError, Refused
from fastnode.keystore.keys import NO_KEYS
from fastnode.log import log_facts

if TYPE_CHECKING:
    from fastnode.keystore.keys import Keystore, ValidatorKeys
    from fastnode.keystore.private_keys import RemoteSigner

__all__ = ["Validators"]

logger = logging.getLogger(__name__)

NO_KEYSTORE = (
    "Cannot reload keystore: node is not using a file-based keystore. "
    "Set KEY_STORE_DIRECTORY to use file-based keystores."
)
NOT_ENABLED = "Cannot reload keystore: validator is not enabled."


#: Between two attempts to ask a remote signer; one that is just starting is waited for.
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)


def _load(path: Path) -> Keystore:
    # On demand: most nodes have no keys, and every start would pay for the cryptography.
    from fastnode.keystore.keystore import load_keystore

    return load_keystore(path)


def _probe(signers: Iterable[RemoteSigner], stop: threading.Event, *, pauses_s: Sequence[float]) -> None:
    from fastnode.keystore.remote_signers import probe_signers

    probe_signers(signers, stop, pauses_s=pauses_s)


class Validators:
    """``path`` None: there are no keys.  KeystoreError when it cannot be used.

    The keys of a moment are one immutable :class:`Keystore`, replaced as a whole.
    """

    def __init__(
        self,
        path: Path | None,
        configuration: NodeConfiguration,
        *,
        probe_pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._path = path
        self._probe_pauses_s = probe_pauses_s
        self._stop = threading.Event()
        self._probing: threading.Thread | None = None
        self._signer_trouble: str | None = None
        self._configuration = configuration
        self._lock = threading.Lock()
        self.keystore: Keystore = NO_KEYS
        self._publishers: frozenset[str] = frozenset()
        if path is not None and self._is_enabled:
            keystore = _load(path)
            #: Addresses of the L1 publishers of this process.
            self._publishers = keystore.publishers
            self._take_over(keystore)
            logger.info("keystore", extra=log_facts(path=path, validators=len(keystore.validators)))
            self._probe_later(keystore)

    def close(self) -> None:
        """No caller waits for a remote signer any longer.  May be called more than once."""
        self._stop.set()
        if self._probing is not None:
            self._probing.join()

    def troubles(self) -> dict[str, str | None]:
        """Fault of remote signers when they were tried, None for nothing."""
        return {} if self._path is None else {"signers": self._signer_trouble}

    def _probe_later(self, keystore: Keystore) -> None:
        """The node reads the chain without them: at the start a remote signer that is away is worth a line."""

        def probe() -> None:
            try:
                _probe(keystore.remote_signers, self._stop, pauses_s=self._probe_pauses_s)
            except KeystoreError as error:
                if not self._stop.is_set():
                    self._signer_trouble = f"a remote signer cannot be used: {error}"
                    logger.warning("a remote signer cannot be used", extra=log_facts(reason=str(error)))
            except Exception as error:  # what it answers may be anything
                self._signer_trouble = f"remote signers cannot be tried: {type(error).__name__}; the log has the cause"
                logger.exception("remote signers cannot be tried")

        if keystore.remote_signers:
            self._probing = threading.Thread(target=probe, name="fastnode-signers")
            self._probing.start()

    @property
    def _is_enabled(self) -> bool:
        return not self._configuration["disableValidator"]

    def of(self, address: str) -> ValidatorKeys | None:
        """The keys of a validator, by its address in lower-case hex."""
        return next((keys for keys in self.keystore.validators if keys.address == address), None)

    def reload(self) -> None:
        """Take over what the files say now; Refused, with everything as it was, when that cannot be."""
        if self._path is None:
            raise Refused(NO_KEYSTORE)
        if not self._is_enabled:
            raise Refused(NOT_ENABLED)
        with self._lock:
            try:
                keystore = _load(self._path)
            except KeystoreError as error:
                raise Refused(str(error)) from None
            for validator in keystore.validators:
                self._require_known_publishers(validator)
            try:
                _probe(keystore.remote_signers, self._stop, pauses_s=self._probe_pauses_s)
            except KeystoreError as error:
                raise Refused(f"Cannot reload keystore: {error}") from None
            self._signer_trouble = None
            before = set(self.keystore.addresses)
            self._take_over(keystore)
        after = set(keystore.addresses)
        logger.info(
            "keystore reloaded",
            extra=log_facts(validators=len(after), added=len(after - before), removed=len(before - after)),
        )

    def _require_known_publishers(self, validator: ValidatorKeys) -> None:
        if validator.publishes_itself:
            return
        named = [signer.address for signer in validator.publishers]
        unknown = [address for address in named if address not in self._publishers]
        if not unknown:
            return
        which = "none match" if len(unknown) == len(named) else f"[{', '.join(unknown)}] match none of"
        raise Refused(
            f"Cannot reload keystore: validator {validator.address} has publisher keys [{', '.join(named)}] "
            f"but {which} the L1 signers initialized at startup [{', '.join(sorted(self._publishers))}]. "
            f"Publishers cannot be hot-reloaded — use an existing publisher key or restart the node."
        )

    def _take_over(self, keystore: Keystore) -> None:
        if self.keystore is not NO_KEYS:
            # The prover's keys are those of the start.
            keystore = replace(keystore, prover=self.keystore.prover)
        self.keystore = keystore
        self._configuration.replace_validators(keystore.addresses)
