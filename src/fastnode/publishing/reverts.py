"""Reason why a contract refuses a call, in one line: its errors by their selectors, with what their words mean.

error data      selector 4 | word 32 ...          selector = first 4 bytes of keccak(signature)
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from fastnode.errors import CallReverted, DecodeError, UpstreamRejection, one_line
from fastnode.publishing.encoding import selector
from fastnode.records import dataclass
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, hex_data
from fastnode.sources.l1.endpoints import is_revert
from fastnode.sources.l1.proposals import call_data_of

__all__ = ["reverted", "reverted_of"]

_SELECTOR_BYTES: Final = 4
_WORDS_SHOWN_MAX: Final = 4
#: Errors of the compiler itself.
_TEXT: Final = selector("Error(string)")
_PANIC: Final = selector("Panic(uint256)")
_TEXT_BYTES_MAX: Final = 300

#: Signature, names of its words, what it says.
_ERRORS: Final = (
    ("Rollup__NoBlobsInCheckpoint()", "", "the checkpoint has no blobs"),
    ("Rollup__InvalidBlobHash(bytes32,bytes32)", "expected given", "a blob is not that of its commitment"),
    (
        "ValidatorSelection__InsufficientValidatorSetSize(uint256,uint256)",
        "validators needed",
        "there are too few validators for a committee",
    ),
    ("ValidatorSelection__EpochNotStable(uint256,uint32)", "epoch time", "the committee of the epoch is not drawn yet"),
    ("Rollup__InvalidCoinbase()", "", "the coinbase is zero"),
    ("Rollup__ManaLimitExceeded()", "", "the checkpoint uses more mana than the rollup allows"),
    ("Rollup__InvalidArchive(bytes32,bytes32)", "expected given", "it does not follow the pending tip of L1"),
    ("Rollup__SlotAlreadyInChain(uint256,uint256)", "tip given", "its slot is not after the tip's"),
    ("HeaderLib__InvalidSlotNumber(uint256,uint256)", "expected given", "its slot is not that of the L1 block"),
    ("Rollup__InvalidTimestamp(uint256,uint256)", "expected given", "its timestamp is not the begin of its slot"),
    ("Rollup__UnavailableTxs(bytes32)", "hash", "its blobs hash is not that of the commitments"),
    ("Rollup__NonZeroDaFee()", "", "its fee for data gas is not zero"),
    ("Rollup__InvalidManaMinFee(uint256,uint256)", "expected given", "its fee for L2 gas is not the one of L1"),
    (
        "Rollup__InvalidEscapeHatchProposer(address,address)",
        "expected given",
        "the escape hatch is open, and for another proposer",
    ),
    (
        "AttestationLib__SignatureIndicesSizeMismatch(uint256,uint256)",
        "expected given",
        "the bits of its attestations are not those of the committee's size",
    ),
    (
        "AttestationLib__SignaturesOrAddressesSizeMismatch(uint256,uint256)",
        "expected given",
        "its attestations have another length than their bits say",
    ),
    (
        "AttestationLib__SignersSizeMismatch(uint256,uint256)",
        "expected given",
        "it names more or fewer signers than have signed",
    ),
    (
        "ValidatorSelection__InvalidCommitteeCommitment(bytes32,bytes32)",
        "expected given",
        "its attestations are of another committee",
    ),
    (
        "ValidatorSelection__MissingProposerSignature(address,uint256)",
        "proposer place",
        "its proposer has not attested",
    ),
    ("ValidatorSelection__InvalidProposer(address,address)", "expected given", "another proposer has this slot"),
    ("SignatureLib__InvalidSignature(address,address)", "expected given", "a signature is by another key"),
    ("ECDSAInvalidSignature()", "", "a signature is none"),
    ("ECDSAInvalidSignatureS(bytes32)", "s", "a signature has the higher of two forms"),
    ("FeeLib__InvalidFeeAssetPriceModifier()", "", "its price modifier is beyond 100 basis points"),
    ("Rollup__InvalidInHash(bytes32,bytes32)", "expected given", "its in hash is not that of the Inbox"),
    ("Inbox__MustBuildBeforeConsume()", "", "the Inbox still takes messages for it"),
    # Taking back.
    ("Rollup__AttestationsAreValid()", "", "the attestations are not wrong"),
    ("Rollup__CheckpointNotInPendingChain()", "", "the checkpoint is not pending"),
    ("Rollup__CheckpointAlreadyProven()", "", "the checkpoint is proven"),
    ("Rollup__InvalidAttestations()", "", "the attestations are not those that were proposed"),
    # Proofs.
    ("Rollup__InvalidFirstEpochProof()", "", "the first proof does not begin with checkpoint 1"),
    ("Rollup__PastDeadline(uint256,uint256)", "deadline given", "the epoch may not be proven any more"),
    ("Rollup__InvalidPreviousArchive(bytes32,bytes32)", "expected given", "the archive before it is another one"),
    ("Rollup__InvalidOutHash(bytes32,bytes32)", "expected given", "the out hash is not that of its last checkpoint"),
    ("Rollup__InvalidBlobProof(bytes32)", "hash", "the opening of its blobs is wrong"),
    ("Rollup__InvalidProof()", "", "the verifier does not accept the proof"),
    ("Rollup__StartAndEndNotSameEpoch(uint256,uint256)", "start end", "its checkpoints are not of one epoch"),
    ("Rollup__StartIsNotFirstCheckpointOfEpoch()", "", "it does not begin with the first checkpoint of its epoch"),
    ("Rollup__StartIsNotBuildingOnProven()", "", "the checkpoints before it are not proven"),
    ("Rollup__TooManyCheckpointsInEpoch(uint256,uint256)", "expected given", "it has too many checkpoints"),
    ("ValidatorSelection__InsufficientAttestations(uint256,uint256)", "needed given", "too few have attested"),
    (
        "Rollup__ProverHaveAlreadySubmitted(address,uint256)",
        "prover epoch",
        "this prover has proven the epoch at this length",
    ),
)


@dataclass(frozen=True, slots=True)
class _Error:
    name: str
    types: tuple[str, ...]
    words: tuple[str, ...]
    meaning: str


@cache
def _by_selector() -> dict[bytes, _Error]:
    found = {}
    for signature, words, meaning in _ERRORS:
        name, _, types = signature.rstrip(")").partition("(")
        found[selector(signature)] = _Error(name, tuple(filter(None, types.split(","))), tuple(words.split()), meaning)
    return found


def reverted(data: bytes, what: str) -> CallReverted:
    """The error that says why ``what`` was refused; ``data`` as the contract gave it, empty if it gave none."""
    if len(data) < _SELECTOR_BYTES:
        return CallReverted(f"{what} was refused without a reason", "", (), data)
    mark, content = data[:_SELECTOR_BYTES], data[_SELECTOR_BYTES:]
    if mark == _TEXT:
        return CallReverted(f"{what} was refused: {_text_of(content)}", "Error", (), data)
    if mark == _PANIC:
        code = int.from_bytes(content[:WORD_BYTES], "big")
        return CallReverted(f"{what} was refused: the contract panicked with code {code:#x}", "Panic", (code,), data)
    error = _by_selector().get(mark)
    if error is None or len(content) < WORD_BYTES * len(error.types):
        shown = " ".join([mark.hex(), *_words(content)[:_WORDS_SHOWN_MAX]])
        return CallReverted(f"{what} was refused with an error that is not known here ({shown})", mark.hex(), (), data)
    values = [_value(kind, content[at * WORD_BYTES :][:WORD_BYTES]) for at, kind in enumerate(error.types)]
    named = ", ".join(f"{name} {value}" for name, value in zip(error.words, values, strict=True))
    return CallReverted(
        f"{what} was refused: {error.meaning} ({error.name}{named and ': ' + named})", error.name, values, data
    )


def reverted_of(rejection: UpstreamRejection, what: str) -> CallReverted | None:
    """The same from a JSON-RPC error; None if it is about something else than a call that failed."""
    data: Any = rejection.data
    if isinstance(data, dict):  # some nodes nest it
        data = data.get("data")
    if isinstance(data, str):
        found = re.search("0x[0-9a-fA-F]*", data)  # others put words in front
        try:
            return reverted(call_data_of(found[0] if found else None), what)
        except DecodeError:
            return reverted(b"", what)
    if is_revert(rejection):
        return reverted(b"", what)
    return None


def _value(kind: str, word: bytes) -> Any:
    if kind == "address":
        return hex_data(word[-ADDRESS_BYTES:])
    return int.from_bytes(word, "big") if kind.startswith("uint") else hex_data(word)


def _words(content: bytes) -> list[str]:
    return [hex_data(content[at : at + WORD_BYTES]) for at in range(0, len(content), WORD_BYTES)]


def _text_of(content: bytes) -> str:
    length = int.from_bytes(content[WORD_BYTES : 2 * WORD_BYTES], "big")
    return one_line(content[2 * WORD_BYTES :][: min(length, _TEXT_BYTES_MAX)].decode("utf-8", "replace"))
