"""Answers of L1 to a call before it is sent: an ``eth_call``, or ``eth_simulateV1`` at the time of the next block.

Blobs cannot be simulated: the switch of the rollup that compares them with the commitments is off in what is simulated.
A checkpoint that takes the place of an invalid one is simulated as if that had been taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from fastnode.errors import CallReverted, DecodeError, UpstreamRejection
from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.encoding import arguments, byte_string, selector
from fastnode.publishing.envelope import BlobBundle, SidecarForm
from fastnode.publishing.fees import GAS_MAX
from fastnode.publishing.multicall import Call
from fastnode.publishing.reverts import reverted, reverted_of
from fastnode.records import dataclass
from fastnode.sources.l1.abi import from_amount, from_quantity, hex_data, quantity
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint
from fastnode.sources.l1.proposals import call_data_of
from fastnode.sources.l1.propose_calls import is_unknown_method

__all__ = ["Simulated", "Simulator"]

_VALIDATE_BLOBS: Final = selector("validateBlobs(bytes)")
#: Storage of the rollup: whether blobs are compared; pending << 128 | proven checkpoint.
_CHECK_BLOBS_SLOT: Final = 4
_TIPS_SLOT: Final = int.from_bytes(keccak_256(b"aztec.stf.storage"), "big")
_TIP_BITS: Final = 128
_BLOCK_GAS: Final = 33_554_432
#: Gas for the check of one blob, the transaction around it included.
_BLOB_GAS_MAX: Final = 60_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Simulated:
    """``gas_used``: of the whole transaction with the one call; ``is_certain``: False where L1 cannot simulate, then
    ``gas_used`` is the most that a transaction may take."""

    gas_used: int
    is_certain: bool = True


class Simulator:
    """Questions about one rollup; usable from any thread.  UpstreamUnavailable when no L1 node answers."""

    def __init__(self, l1: L1Client, rollup: bytes) -> None:
        self._l1 = l1
        self._rollup = rollup

    def simulate(
        self,
        call: Call,
        sender: bytes,
        timestamp: int,
        *,
        what: str = "the call",
        forced_pending: tuple[int, int] | None = None,
        block: int | None = None,
    ) -> Simulated:
        """A call on the newest block, or ``block``, in an L1 block of a time.

        ``forced_pending``: pending and proven checkpoint as they are after an invalidation in the same transaction.
        CallReverted says why the contract refuses.
        """
        slots: dict[int, int] = {_CHECK_BLOBS_SLOT: 0}
        if forced_pending is not None:
            pending, proven = forced_pending
            slots[_TIPS_SLOT] = pending << _TIP_BITS | proven
        question = _simulation(call, sender, timestamp, {self._rollup: slots})
        tag = "latest" if block is None else quantity(block)

        def ask(endpoint: L1Endpoint) -> Simulated | CallReverted:
            answer = endpoint.answers([("eth_simulateV1", [question, tag])])[0]
            if isinstance(answer, UpstreamRejection):
                if is_unknown_method(answer):
                    return Simulated(GAS_MAX, is_certain=False)
                return _refusal(answer, what)
            return _outcome(answer, what)

        return _raised(self._l1.run(ask))

    def blob_gas(self, sender: bytes, bundle: BlobBundle) -> int:
        """Gas of comparing blobs with their commitments in the contract.  CallReverted.

        An account that cannot pay for the question gets a figure that is enough.
        """
        blob_input = bytes([len(bundle.commitments)]) + b"".join(bundle.commitments)
        call = {
            "from": hex_data(sender),
            "to": hex_data(self._rollup),
            "data": hex_data(_VALIDATE_BLOBS + arguments((byte_string(blob_input),))),
            "blobVersionedHashes": [hex_data(item) for item in bundle.versioned_hashes],
        }
        proofs = bundle.proofs(SidecarForm.EIP_4844)
        sidecar = {
            "blobs": [hex_data(blob) for blob in bundle.blobs],
            "commitments": [hex_data(item) for item in bundle.commitments],
            "proofs": [hex_data(item) for item in proofs],
        }

        def ask(endpoint: L1Endpoint) -> int | CallReverted:
            fee = from_amount(endpoint.results([("eth_blobBaseFee", [])])[0], "eth_blobBaseFee")
            priced = call | {"maxFeePerBlobGas": quantity(2 * fee)}
            # Some nodes want the blobs, others only their hashes.
            for record in (priced, priced | sidecar):
                answer = endpoint.answers([("eth_estimateGas", [record])])[0]
                if not isinstance(answer, UpstreamRejection):
                    return from_quantity(answer, "eth_estimateGas")
            if "insufficient funds" in answer.message.lower():
                return _BLOB_GAS_MAX * len(bundle.blobs)
            return _refusal(answer, "the check of the blobs")

        return _raised(self._l1.run(ask))


def _simulation(
    call: Call, sender: bytes, timestamp: int, storage: Mapping[bytes, Mapping[int, int]]
) -> dict[str, Any]:
    return {
        "blockStateCalls": [
            {
                "blockOverrides": {"time": quantity(timestamp), "gasLimit": quantity(_BLOCK_GAS)},
                "stateOverrides": {
                    hex_data(contract): {
                        "stateDiff": {f"0x{slot:064x}": f"0x{value:064x}" for slot, value in slots.items()}
                    }
                    for contract, slots in storage.items()
                },
                "calls": [
                    {
                        "from": hex_data(sender),
                        "to": hex_data(call.target),
                        "data": hex_data(call.data),
                        "gas": quantity(GAS_MAX),
                    }
                ],
            }
        ],
        "validation": False,
    }


def _outcome(answer: Any, what: str) -> Simulated | CallReverted:
    try:
        result = answer[0]["calls"][0]
        if from_quantity(result["status"], "status") == 1:
            return Simulated(from_quantity(result["gasUsed"], "gasUsed"))
    except (LookupError, TypeError) as error:
        raise DecodeError("eth_simulateV1: no result of a call") from error
    data = result.get("returnData")
    refusal = result.get("error")
    if (not isinstance(data, str) or len(data) <= len("0x")) and isinstance(refusal, dict):
        data = refusal.get("data")
    return reverted(call_data_of(data) if isinstance(data, str) else b"", what)


def _refusal(rejection: UpstreamRejection, what: str) -> CallReverted:
    return reverted_of(rejection, what) or CallReverted(f"{what} was refused: {rejection}", "")


def _raised(answer: T | CallReverted) -> T:
    if isinstance(answer, CallReverted):
        raise answer
    return answer
