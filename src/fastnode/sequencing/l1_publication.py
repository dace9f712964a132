"""Checkpoints and proofs on their way to L1: simulated, sent by one of the accounts, watched until L1 has decided."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import (
    CallReverted,
    DutyConflict,
    EpochNotProven,
    NoPublisher,
    SigningError,
    SlotLost,
    UpstreamError,
)
from fastnode.kernels import encode
from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.kzg_proofs import load_setup
from fastnode.publishing import digests
from fastnode.publishing.envelope import BlobBundle, SidecarForm
from fastnode.publishing.fees import gas_limit
from fastnode.publishing.forwarding import forwarded
from fastnode.publishing.multicall import Call
from fastnode.publishing.propose import NO_ATTESTATIONS, EpochProof, InvalidateCall, ProposeCall
from fastnode.publishing.requests import Outcome, Request, Success
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

if TYPE_CHECKING:
    from fastnode.ha.duty import DutyType
    from fastnode.keystore.keys import Keystore, ValidatorKeys
    from fastnode.publishing.publisher import L1Publisher
    from fastnode.publishing.publishers import Publishers
    from fastnode.publishing.signing import SigningDoor as Door
    from fastnode.publishing.simulation import Simulator
    from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["KeyDoor", "L1Publication", "Published"]

_PROOF_VERIFIED: Final = hex_data(keccak_256(b"L2ProofVerified(uint256,address)"))
_INVALIDATED: Final = hex_data(keccak_256(b"CheckpointInvalidated(uint256)"))
#: Gas that taking a checkpoint back may use, beside a proposal and alone.
_INVALIDATION_GAS: Final = 400_000
_NO_SIGNATURE: Final = bytes(64) + b"\x1b"
#: Signatures whose messages are remembered.
_REMEMBERED_MAX: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A transaction that L1 has; ``fee`` in wei."""

    block_number: int
    tx_hash: str
    fee: int


class KeyDoor:
    """The keys of validators as a proposer needs them, and what keeps them from signing twice.

    ``keystore`` gives those of now; they follow a reload.  ``disabled``: addresses of validators whose keys sign
    nothing now (disabledValidators).
    """

    def __init__(
        self, door: Door, keystore: Callable[[], Keystore], disabled: Callable[[], Collection[bytes]] = lambda: ()
    ) -> None:
        self._door = door
        self._keystore = keystore
        self._disabled = disabled
        self._signed: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    def attesters(self) -> Sequence[bytes]:
        """Addresses whose keys are here now and sign."""
        disabled = self._disabled()
        return tuple(address for address in self.own() if address not in disabled)

    def own(self) -> Sequence[bytes]:
        """Addresses whose keys are here now, also of validators that are disabled."""
        return tuple(encode.from_hex(address) for address in self._keystore().addresses)

    def disabled(self) -> Collection[bytes]:
        """Addresses of validators whose keys sign nothing now, whether they are here or not."""
        return self._disabled()

    def coinbase_of(self, attester: bytes | None) -> bytes:
        return encode.from_hex(self._validator(attester).coinbase)

    def fee_recipient_of(self, attester: bytes | None) -> bytes:
        return encode.from_hex(self._validator(attester).fee_recipient)

    def publishers_of(self, attester: bytes | None) -> Collection[bytes]:
        """Accounts that may pay for a validator; without a committee those of all."""
        validators = self._keystore().validators if attester is None else (self._validator(attester),)
        return {encode.from_hex(signer.address) for each in validators for signer in each.publishers}

    def sign(
        self,
        attester: bytes,
        duty: DutyType,
        message: bytes,
        *,
        slot: int,
        block_number: int = 0,
        block_index: int | None = None,
    ) -> bytes:
        """r 32 | s 32 | v 1 over a message of 32 bytes.

        DutyError when another node has, or may have, signed this duty; HaDatabaseError and SigningError when it cannot
        be signed now.
        """
        self._require_enabled(attester)
        key = (attester, duty, slot, block_index)
        if self._signed.setdefault(key, message) != message:
            raise DutyConflict(f"{duty} of {hex_data(attester)} in slot {slot} was signed before, for something else")
        while len(self._signed) > _REMEMBERED_MAX:
            self._signed.popitem(last=False)
        wanted = self._door.duty(duty, attester, slot, block_number=block_number, block_index=block_index)
        return self._door.sign(wanted, message)

    def sign_typed(
        self, attester: bytes, duty: DutyType, digest: bytes, typed_data: Mapping[str, Any], *, slot: int
    ) -> bytes:
        """As :meth:`sign`, for typed data (EIP-712): votes."""
        self._require_enabled(attester)
        return self._door.sign_typed(self._door.duty(duty, attester, slot), digest, typed_data)

    def sign_free(self, attester: bytes, message: bytes) -> bytes:
        """As :meth:`sign`, for what may be signed again and again, as transactions that go with a block."""
        return self._door.sign_message(attester, message)

    def _require_enabled(self, attester: bytes) -> None:
        """SlotLost once a validator is disabled, also in the middle of its slot."""
        if attester in self._disabled():
            raise SlotLost(f"the validator {hex_data(attester)} is disabled (disabledValidators)")

    def _validator(self, attester: bytes | None) -> ValidatorKeys:
        disabled = self._disabled() if attester is None else ()
        for each in self._keystore().validators:
            address = encode.from_hex(each.address)
            if address == attester or (attester is None and address not in disabled):
                return each
        who = "any validator" if attester is None else hex_data(attester)
        raise SlotLost(f"the key of {who} is not here any more")


class L1Publication:
    """``allowed``: accounts that may pay for a validator, None: all; ``sign``: by an account, what needs no lock.

    ``hand_on`` gets the blobs of what is about to be sent, by their versioned hashes; ``keep`` writes them, with their
    commitments, where this node finds them again, OSError.  ``forwarder``: the contract that transactions go through.
    ``gas_buffer_percent``: gas that they may take beyond what they took when they were tried.
    """

    def __init__(
        self,
        publishers: Publishers,
        facts: Callable[[], RollupFacts],
        *,
        allowed: Callable[[bytes | None], Collection[bytes] | None],
        sign: Callable[[bytes, bytes], bytes],
        hand_on: Callable[[Mapping[bytes, bytes]], None] = lambda blobs: None,
        keep: Callable[[Sequence[bytes], Sequence[bytes]], None] = lambda blobs, commitments: None,
        forwarder: bytes | None = None,
        gas_buffer_percent: int = 20,
    ) -> None:
        self._publishers = publishers
        self._gas_limit = partial(gas_limit, buffer_percent=gas_buffer_percent)
        self._hand_on = hand_on
        self._facts = facts
        self._allowed = allowed
        self._sign = sign
        self._keep = keep
        self._forwarder = forwarder
        self._prepared: BlobBundle | None = None

    @property
    def simulator(self) -> Simulator:
        return self._publishers.simulator

    def warm_up(self) -> None:
        """Begin to load what proofs of blobs need: it takes a moment that a slot may not have.

        In a thread that no stop waits for: nothing can interrupt it, and on a busy machine it takes a minute.
        """
        threading.Thread(target=load_setup, name="fastnode-kzg-setup", daemon=True).start()

    # ---- checkpoints ---------------------------------------------------------------------------

    def ready(self, attester: bytes | None) -> None:
        """SlotLost when no account could pay for this validator now."""
        self._choose(attester)

    def unsigned(self) -> bytes:
        """Without a committee the signature is not looked at; the reference makes one all the same."""
        try:
            message = digests.attestations_and_signers(NO_ATTESTATIONS, ())
            return self._sign(self._choose(None).address, message)
        except SigningError:
            return _NO_SIGNATURE

    def prepare(self, blobs: Sequence[bytes], commitments: Sequence[bytes]) -> None:
        """Make the proofs of a checkpoint's blobs in a thread, while attestations are waited for, where that takes
        long: those of cells."""
        if not any(each.sidecar_form() is SidecarForm.EIP_7594 for each in self._publishers.all):
            return
        bundle = self._prepared = BlobBundle(blobs, commitments)
        work = partial(bundle.proofs, SidecarForm.EIP_7594)
        threading.Thread(target=work, name="fastnode-blob-proofs", daemon=True).start()

    def _bundle(self, blobs: Sequence[bytes], commitments: Sequence[bytes]) -> BlobBundle:
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared.commitments == tuple(commitments):
            return prepared
        return BlobBundle(blobs, commitments)

    def propose(
        self,
        call: ProposeCall,
        blobs: Sequence[bytes],
        *,
        slot: int,
        checkpoint: int,
        attester: bytes | None,
        at: int,
        not_after: int,
        invalidation: InvalidateCall | None = None,
        proven: int = 0,
        votes: Sequence[Call] = (),
        on_mined: Callable[[Sequence[Any]], None] = lambda logs: None,
    ) -> Published:
        """Returns when L1 has the checkpoint; SlotLost, with the reason, when it will not have it.

        ``votes`` go with it, and may fail; ``on_mined`` is told of the logs once L1 has the transaction, whatever it
        has done.
        Times are those of L1.  ``at``: what the next L1 block can have; ``not_after``: what is not in a block by then
        is cancelled; ``proven``: the newest proven checkpoint, for the simulation of what replaces an invalid one.
        """
        facts = self._facts()
        account = self._choose(attester)
        bundle = self._bundle(blobs, call.commitments)
        inner = Call(facts.rollup, call.call_data())
        what = f"checkpoint {checkpoint} of slot {slot}"
        slot_end = facts.start_of_slot(slot + 1)
        time = min(max(at, call.header.timestamp) + 1, slot_end - 1)
        forced = None if invalidation is None else (invalidation.number - 1, proven)
        simulator = self._publishers.simulator
        # The disk takes 2 to 10 ms for them; L1 answers meanwhile.
        with ThreadPoolExecutor(1, thread_name_prefix="fastnode-own-blobs") as beside:
            keeping = beside.submit(self._keep, blobs, call.commitments)
            try:
                simulated = simulator.simulate(inner, account.address, time, what=what, forced_pending=forced)
                checked = simulator.blob_gas(account.address, bundle)
            except CallReverted as error:
                raise SlotLost(str(error)) from error
        others = sum(vote.gas for vote in votes) + (0 if invalidation is None else _INVALIDATION_GAS)
        before = () if invalidation is None else (Call(facts.rollup, invalidation.call_data(), _INVALIDATION_GAS),)
        topics = (CHECKPOINT_PROPOSED, f"0x{checkpoint:064x}", hex_data(call.archive_root))
        # Before L1 has it: a node that is killed now, or whose blocks go, would leave what no node can derive.
        self._hand_on(dict(zip(bundle.versioned_hashes, blobs, strict=True)))
        try:
            keeping.result()
        except OSError as error:
            raise SlotLost(f"the blobs cannot be kept: {error.strerror}") from error
        outcome = self._publish(
            account,
            Request(
                what=what,
                calls=(*before, inner, *votes),
                success=Success(facts.rollup, topics),
                gas=self._gas_limit(simulated.gas_used, blobs=checked, others=others),
                bundle=bundle,
                slot_ends_at=slot_end,
                give_up_at=not_after,
            ),
        )
        if outcome.block_number is not None:
            on_mined(outcome.logs)
        if not outcome.is_published:
            raise SlotLost(outcome.reason or str(outcome.kind))
        return _published(outcome)

    def sender_of(self, attester: bytes | None) -> bytes:
        """An account that would pay now.  SlotLost when none could."""
        return self._choose(attester).address

    def cast(
        self, votes: Sequence[Call], success: Success, *, slot: int, attester: bytes | None, not_after: int
    ) -> Sequence[Any]:
        """Send votes without a checkpoint: logs of the transaction once L1 has it, ``success`` or not.  SlotLost.

        ``not_after``: time of the last L1 block of the slot.  In a later one they would count as those of the next
        slot's proposer, and be refused.
        """
        slot_end = self._facts().start_of_slot(slot + 1)
        outcome = self._publish(
            self._choose(attester),
            Request(
                what=f"votes of slot {slot}",
                calls=tuple(votes),
                success=success,
                gas=self._gas_limit(0, others=sum(vote.gas for vote in votes)),
                slot_ends_at=slot_end,
                give_up_at=not_after,
            ),
        )
        if outcome.block_number is None:
            raise SlotLost(outcome.reason or str(outcome.kind))
        return outcome.logs

    def invalidate(self, call: InvalidateCall) -> Published:
        """Take a checkpoint back, and nothing else.  SlotLost."""
        facts = self._facts()
        outcome = self._publish(
            self._choose(None),
            Request(
                what=f"taking checkpoint {call.number} back",
                calls=(Call(facts.rollup, call.call_data()),),
                success=Success(facts.rollup, (_INVALIDATED,)),
                gas=_INVALIDATION_GAS,
                is_direct=True,
            ),
        )
        if not outcome.is_published:
            raise SlotLost(outcome.reason or str(outcome.kind))
        return _published(outcome)

    # ---- proofs --------------------------------------------------------------------------------

    def submit(self, proof: EpochProof, what: str, at: int) -> str:
        """Hash of the transaction once L1 has taken the proof; EpochNotProven.  ``at``: time of the next L1 block."""
        facts = self._facts()
        call = Call(facts.rollup, proof.call_data())
        try:
            account = self._publishers.choose(self._allowed(None))
            simulated = self._publishers.simulator.simulate(call, account.address, at, what=what)
        except (NoPublisher, CallReverted, UpstreamError) as error:
            raise EpochNotProven(str(error)) from error
        outcome = self._publish(
            account,
            Request(
                what=what,
                calls=(call,),
                success=Success(facts.rollup, (_PROOF_VERIFIED,)),
                gas=self._gas_limit(simulated.gas_used),
                is_direct=True,
            ),
        )
        if not outcome.is_published:
            raise EpochNotProven(outcome.reason or str(outcome.kind))
        return outcome.tx_hash or ""

    def _publish(self, account: L1Publisher, request: Request) -> Outcome:
        return account.publish(forwarded(request, self._forwarder))

    def _choose(self, attester: bytes | None) -> L1Publisher:
        try:
            return self._publishers.choose(self._allowed(attester))
        except NoPublisher as error:
            raise SlotLost(str(error)) from error


def _published(outcome: Outcome) -> Published:
    return Published(block_number=outcome.block_number or 0, tx_hash=outcome.tx_hash or "", fee=outcome.fee_wei)
