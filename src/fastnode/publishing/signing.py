"""The one door to the keys: whatever this node signs is signed here, after the lock on it is taken.

    a duty          lock in the database, if redundant nodes share one ─► sign ─► record ─► the signature may leave
    anything else   (transactions of L1, connections with peers): no lock

A key is in this process, or a remote signer holds it (Web3Signer's methods: ``eth_sign`` marks what it signs itself,
``eth_signTypedData_v4``, ``eth_signTransaction``).  What a remote signer gives back must be the signature of the right
key over what was asked.  Without the database nothing is signed; nothing else stops.

No key is in any error, log line, report or printed form of what is here.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastnode.errors import DecodeError, DutyError, HaDatabaseError, SigningError, UpstreamError
from fastnode.ha.duty import Duty, DutyType
from fastnode.kernels import encode
from fastnode.keystore.private_keys import EthKey, RemoteSigner, Signer
from fastnode.log import log_facts
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.protocol.ethereum import recover_signer, signed_digest, with_recovery_byte
from fastnode.sources.l1.abi import hex_data

if TYPE_CHECKING:
    from fastnode.ha.duties import DutyLocks
    from fastnode.outgoing.network import Network
    from fastnode.publishing.envelope import SignedTransaction, Transaction

__all__ = ["SigningDoor"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_DIGEST_BYTES: Final = 32
#: After how many slots an unfinished duty counts as stuck, unless a setting says otherwise.
_STUCK_SLOTS: Final = 2
#: A remote signer is beside the node; a slot waits for it.
_LIMITS: Final = ClientLimits(request_time_s=10.0, response_bytes_max=4 << 20)


class SigningDoor:
    """Usable from any thread; every method waits, so not from the event loop.

    ``signers`` gives the keys of now by their addresses (a reload of the keystore replaces them); ``locks`` None: no
    other node has these keys.
    """

    def __init__(
        self,
        signers: Callable[[], Mapping[bytes, Signer]],
        rollup: bytes,
        network: Network,
        locks: DutyLocks | None = None,
    ) -> None:
        self._signers = signers
        self._rollup = rollup
        self._network = network
        self._locks = locks
        self._lock = threading.Lock()
        #: Signatures by the kind of the duty, and what came instead: told by metrics.
        self.signed: Counter[str] = Counter()
        self.yielded: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"SigningDoor({len(self.addresses)} keys)"

    @property
    def addresses(self) -> tuple[bytes, ...]:
        """Addresses of the present keys."""
        return tuple(self._signers())

    @property
    def is_shared(self) -> bool:
        """True if other nodes have these keys too."""
        return self._locks is not None

    def describe(self) -> dict[str, Any]:
        """For status reports and metrics: how often what was signed, left to another node, or failed."""
        return {
            "keys": [hex_data(address) for address in self.addresses],
            "isShared": self.is_shared,
            "signed": dict(self.signed),
            "yielded": dict(self.yielded),
            "failed": dict(self.failed),
        }

    def clean_up(self, slot_duration_s: float) -> None:
        """Free what this node began to sign long ago and never finished, and forget its duties of other rollups; once
        a slot will do.  A database that does not answer is told of in the log."""
        if self._locks is None:
            return
        try:
            self._locks.clean_up(stuck_s=_STUCK_SLOTS * slot_duration_s, rollup=self._rollup)
        except HaDatabaseError as error:
            logger.warning("duties are not cleaned up", extra=log_facts(reason=str(error)))

    def holds(self, address: bytes) -> bool:
        return address in self._signers()

    def duty(
        self, kind: DutyType, validator: bytes, slot: int, *, block_number: int = 0, block_index: int | None = None
    ) -> Duty:
        """A duty of a validator of this rollup."""
        return Duty(
            rollup=self._rollup,
            validator=validator,
            slot=slot,
            type=kind,
            block_number=block_number,
            block_index=block_index,
        )

    # ---- signing -----------------------------------------------------------------------------

    def sign(self, duty: Duty, digest: bytes) -> bytes:
        """The signature (r 32 | s 32 | v 1) of the duty's validator over a digest of ``digests.py``.

        DutyError: another node signs it, has signed it, or has signed something else: this node gives up the slot.
        HaDatabaseError: the database does not answer, nothing is signed.  SigningError: no such key, or the remote
        signer does not sign.
        """
        return self._sign_duty(duty, digest, lambda signer: self._message(signer, digest))

    def sign_typed(self, duty: Duty, digest: bytes, typed_data: Mapping[str, Any]) -> bytes:
        """As :meth:`sign`, for typed data (EIP-712) whose digest is ``digest``: votes."""
        return self._sign_duty(duty, digest, lambda signer: self._typed(signer, digest, typed_data))

    def sign_message(self, address: bytes, digest: bytes) -> bytes:
        """Without a lock: only what may be signed any number of times.  SigningError."""
        return self._counted("MESSAGE", lambda: self._message(self._signer(address), digest))

    def sign_transaction(self, address: bytes, transaction: Transaction) -> SignedTransaction:
        """Without a lock: the nonce keeps it from being carried out twice.  SigningError."""
        return self._counted("TRANSACTION", lambda: self._transaction(self._signer(address), transaction))

    def _sign_duty(self, duty: Duty, digest: bytes, sign: Callable[[Signer], bytes]) -> bytes:
        if duty.rollup != self._rollup:
            raise ValueError("a duty of another rollup")
        _require_digest(digest)
        signer = self._signer(duty.validator)
        kind, locks = str(duty.type), self._locks
        if locks is None:
            return self._counted(kind, lambda: sign(signer))
        try:
            lock = locks.take(duty, digest)
        except DutyError:
            self._count(self.yielded, kind)
            raise
        except HaDatabaseError:
            self._count(self.failed, kind)
            raise
        try:
            signature = self._counted(kind, lambda: sign(signer))
        except SigningError as error:
            self._free(lock, str(error))
            raise
        # Only now may it leave: the row says who signed.
        locks.finish(lock, signature)
        return signature

    def _free(self, lock: Any, reason: str) -> None:
        assert self._locks is not None
        try:
            self._locks.fail(lock, reason)
        except HaDatabaseError as error:
            # The row stays and is cleaned up once it is old.
            logger.warning("a duty could not be freed", extra=log_facts(duty=str(lock.duty), reason=str(error)))

    def _counted(self, kind: str, sign: Callable[[], Result]) -> Result:
        try:
            result = sign()
        except SigningError as error:
            self._count(self.failed, kind)
            logger.error("nothing was signed", extra=log_facts(kind=kind, reason=str(error)))
            raise
        self._count(self.signed, kind)
        return result

    def _count(self, counter: Counter[str], kind: str) -> None:
        with self._lock:
            counter[kind] += 1

    # ---- keys --------------------------------------------------------------------------------

    def _signer(self, address: bytes) -> Signer:
        signer = self._signers().get(address)
        if signer is None:
            raise SigningError(f"there is no key of {hex_data(address)}")
        return signer

    def _message(self, signer: Signer, digest: bytes) -> bytes:
        _require_digest(digest)
        marked = signed_digest(digest)
        if isinstance(signer, RemoteSigner):
            return self._checked(signer, marked, self._ask(signer, "eth_sign", signer.address, hex_data(digest)))
        return _local(signer, marked)

    def _typed(self, signer: Signer, digest: bytes, typed_data: Mapping[str, Any]) -> bytes:
        if isinstance(signer, RemoteSigner):
            answer = self._ask(signer, "eth_signTypedData_v4", signer.address, dict(typed_data))
            return self._checked(signer, digest, answer)
        return _local(signer, digest)

    def _transaction(self, signer: Signer, transaction: Transaction) -> SignedTransaction:
        if not isinstance(signer, RemoteSigner):
            return transaction.sign(lambda digest: _local(signer, digest))
        answer = self._ask(signer, "eth_signTransaction", transaction.to_json(signer.address))
        raw = answer.get("raw") if isinstance(answer, dict) else answer
        try:
            signed = transaction.signed_from(_bytes_of(raw))
        except DecodeError as error:
            raise SigningError(f"the remote signer of {signer.address}: {error}") from None
        if signed.sender() != bytes.fromhex(signer.address[2:]):
            raise SigningError(f"the remote signer of {signer.address} signed with another key")
        return signed

    # ---- remote signers ----------------------------------------------------------------------

    def _ask(self, signer: RemoteSigner, method: str, *parameters: Any) -> Any:
        try:
            return RpcClient(signer.url, self._network, _LIMITS).ask([(method, parameters)]).results()[0]
        except UpstreamError as error:
            raise SigningError(f"the remote signer of {signer.address} does not answer {method}: {error}") from None

    @staticmethod
    def _checked(signer: RemoteSigner, digest: bytes, answer: Any) -> bytes:
        try:
            signature = with_recovery_byte(_bytes_of(answer))
        except DecodeError as error:
            raise SigningError(f"the remote signer of {signer.address}: {error}") from None
        if recover_signer(digest, signature) != bytes.fromhex(signer.address[2:]):
            raise SigningError(f"the remote signer of {signer.address} gave no signature of that key")
        return signature


def _local(signer: EthKey, digest: bytes) -> bytes:
    from coincurve import PrivateKey

    signature: bytes = PrivateKey(signer.reveal()).sign_recoverable(digest, hasher=None)
    return with_recovery_byte(signature)


def _bytes_of(value: object) -> bytes:
    """DecodeError for what is no hex."""
    try:
        return encode.from_hex(value) if isinstance(value, str) else _refuse()
    except ValueError:
        return _refuse()


def _refuse() -> bytes:
    raise DecodeError("its answer is no hex data")


def _require_digest(digest: bytes) -> None:
    if len(digest) != _DIGEST_BYTES:
        raise ValueError(f"a digest has {_DIGEST_BYTES} bytes")
