"""Answers of this project's modules to the questions of compare_transactions.py, in the form of transactions.mjs.

A question is a JSON object; ``data`` and ``fields`` are base64::

    tx, txJson            a transaction: how it is read, what the network's validators say, what a pool keeps of it
    record, recordJson    a block, header, effect, proposal or attestation: what is read, written again
    blobs                 the fields of a checkpoint's blobs: its blocks
    message               a signed message of a peer: what becomes of it
    attested              packed attestations of a checkpoint on L1: whether its committee stands behind it

What cannot be read is ``{"refused": why}``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any, Final, cast

from tests.mempool.chain import AllowedCall, BookLedger
from tests.mempool.recorded import recorded_tx, recordings
from tests.p2p.bent_messages import Case
from tests.p2p.judging import verdict_here

from fastnode.archiver.verification import check_zeros
from fastnode.building.checks import block_check
from fastnode.errors import DecodeError, FastnodeError
from fastnode.mempool.allow_list import default_allow_list
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import TxValidator, ValidationRules
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.tx_verdicts import judgement_of
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.messages.request_forms import read_tx
from fastnode.proofs.verdict import ProofVerifier
from fastnode.protocol.blob_decoding import checkpoint_of, decode_blocks
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CheckpointHeader, PublishedCheckpoint
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import BlockHeader, GasFees, GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.public_execution.executor import BlockExecutor
from fastnode.sources.l1.attestation_check import refusal_of
from fastnode.sources.l1.proposals import Proposal

Json = dict[str, Any]

CHAIN_ID, VERSION = 31337, 3658137161
TIMESTAMP, BLOCK = 1_000_000, 50
#: Contracts whose classes an operator allows a call of, and a call of each: selector, fields of calldata.
ALLOWED: Final = {
    77: AllowedCall(bytes.fromhex("22222222"), None, bytes(31) + b"\x63", 2, reject_null_msg_sender=True),
    78: AllowedCall(bytes.fromhex("33333333"), None, bytes(31) + b"\x62", only_self=True),
}


def text(data: bytes | None) -> str | None:
    return None if data is None else "0x" + data.hex()


def short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def of_base64(value: str) -> bytes:
    return base64.b64decode(value)


def digest(answer: Json) -> str:
    """Short form of an answer, for recordings; the words of a refusal are ours and may change."""
    answer = answer | {"refused": True} if "refused" in answer else answer
    return hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:12]


def bases() -> list[Tx]:
    """Recorded transactions, from which the others are made."""
    return [recorded_tx(tx_hash) for tx_hash in recordings()]


# ---- a chain that both sides make up ---------------------------------------------------------------


def world() -> Json:
    """Every anchor is known, some of the nullifiers are there, most payers have plenty."""
    source, txs = random.Random("world"), bases()
    return {
        "anchors": sorted({text(tx.data.anchor_block_hash) for tx in txs}, key=str),
        "nullifiers": [text(tx.data.nullifiers[0]) for tx in txs if source.random() < 0.05],
        "balances": {text(tx.data.fee_payer): str(10 ** source.choice((0, 15, 25, 30, 30, 30, 30))) for tx in txs},
        "classes": {text(address.to_bytes(32, "big")): text(call.class_id) for address, call in ALLOWED.items()},
        "allowed": [
            {"classId": text(call.class_id), "selector": text(call.selector)}
            | ({} if call.calldata_length is None else {"calldataLength": call.calldata_length})
            | {"onlySelf": call.only_self, "rejectNullMsgSender": call.reject_null_msg_sender}
            for call in ALLOWED.values()
        ],
        "fee": 1,
        "timestamp": TIMESTAMP,
        "blockNumber": BLOCK,
        "l1ChainId": CHAIN_ID,
        "rollupVersion": VERSION,
    }


def ledger_of(made: Json) -> BookLedger:
    def field(value: str) -> bytes:
        return bytes.fromhex(value[2:])

    ledger = BookLedger(made["blockNumber"] - 1, set(map(field, made["anchors"])), set(map(field, made["nullifiers"])))
    for payer, amount in made["balances"].items():
        ledger.set_balance(field(payer), int(amount))
    ledger.classes = {field(address): field(class_id) for address, class_id in made["classes"].items()}
    ledger.txs = {field(tx_hash): number for tx_hash, number in made.get("mined", {}).items()}
    return ledger


class _State:
    """State after the transactions so far, as the check of a block asks for it."""

    def __init__(self, ledger: BookLedger) -> None:
        self._ledger = ledger

    def storage(self, slot: bytes) -> bytes:
        return self._ledger.public_data.get(slot, 0).to_bytes(FIELD_BYTES, "big")

    def has_nullifier(self, nullifier: bytes) -> bool:
        return nullifier in self._ledger.nullifiers


class Answers:
    """This project's side.  ``network``: root of the verification keys and hash of the protocol contracts."""

    def __init__(self, network: tuple[bytes, bytes] | None = None) -> None:
        data = bases()[0].data
        keys, contracts = network or (data.vk_tree_root, data.protocol_contracts_hash)
        rules = ValidationRules(
            network=NetworkIdentity(CHAIN_ID, VERSION, keys, contracts),
            setup_allow_list=(*default_allow_list(FOUR), *ALLOWED.values()),
            release=FOUR,
        )
        self._ledger = ledger_of(world())
        self._fees = GasFees(0, 1)
        no_verifier = cast(ProofVerifier, None)
        self._validator = TxValidator(rules, SlotClock(0, 1, 0, lambda: float(TIMESTAMP)), no_verifier)
        variables = GlobalVariables(CHAIN_ID, VERSION, BLOCK, 1, TIMESTAMP, bytes(20), bytes(32), self._fees)
        self._check = block_check(self._validator, self._ledger, variables)
        self._executor = cast(BlockExecutor, _State(self._ledger))

    def __call__(self, question: Json) -> Json:
        """Anything but a FastnodeError is a fault of this project, and raised."""
        try:
            if question["op"] in ("tx", "txJson"):
                is_json = question["op"] == "txJson"
                tx = (
                    Tx.from_json(question["json"], FOUR)
                    if is_json
                    else Tx.from_buffer(read_tx(of_base64(question["data"]), FOUR), FOUR)
                )
                return self._described(tx)
            return _ANSWERS[question["op"]](question)
        except FastnodeError as error:
            return {"refused": str(error)[:200]}

    def _described(self, tx: Tx) -> Json:
        buffer, claimed = tx.to_buffer(), tx.hash if tx.claimed_hash is None else tx.claimed_hash
        assert len(buffer) == tx.size
        result = self._validator.validate(tx, self._ledger, self._fees, is_simulation=True)
        gossiped = self._validator.validate(tx, self._ledger, self._fees, is_simulation=True, may_wait_for_price=True)
        judgement = judgement_of(gossiped, is_old_double_spend=False)
        penalty = None if judgement is None or judgement.penalty is None else judgement.penalty.name[0]
        left_out, reason = self._check(tx, self._executor), self._validator.integrity_reason(tx)
        entry = PoolEntry.of(tx, FOUR)
        return {
            "claimed": text(claimed),
            "hash": text(tx.hash),
            "written": short(claimed + buffer[FIELD_BYTES:]),
            "size": tx.size,
            "rpc": [result.result, *result.reasons],
            "gossip": "accept" if judgement is None else f"reject {penalty}" if penalty else "ignore",
            "build": ["valid"]
            if left_out is None
            else ["invalid" if left_out.is_final else "skipped", left_out.reason],
            "proposal": ["valid"] if reason is None else ["invalid", reason],
            "pool": {
                "priority": str(entry.priority_fee),
                "limit": str(entry.fee_limit),
                "claim": str(entry.claim),
                "payer": text(entry.fee_payer),
                "nullifiers": [text(nullifier) for nullifier in entry.nullifiers],
                "anchor": text(entry.anchor_block_hash),
                "expiration": str(entry.expiration),
                "public": entry.is_public,
            },
        }


# ---- records ---------------------------------------------------------------------------------------


def _hashed(record: BlockHeader | CheckpointHeader | L2Block) -> Json:
    return {"written": short(record.to_buffer()), "hash": text(record.hash())}


def _plain(record: TxEffect) -> Json:
    return {"written": short(record.to_buffer())}


def _signed(message: BlockProposal | CheckpointProposal) -> Json:
    return {"written": short(message.to_buffer()), "signer": text(message.signer())}


def _attestation(message: CheckpointAttestation) -> Json:
    return {
        "written": short(message.to_buffer()),
        "signer": text(message.signer()),
        "proposer": text(message.proposer()),
    }


def _published(published: PublishedCheckpoint) -> Json:
    return {
        "written": short(b"".join(block.to_buffer() for block in published.checkpoint.blocks)),
        "signatures": short(b"".join(item.signature for item in published.attestations)),
    }


#: Reader and description of each kind.
RECORDS: Final[dict[str, tuple[Any, Callable[[Any], Json]]]] = {
    "BlockHeader": (BlockHeader, _hashed),
    "CheckpointHeader": (CheckpointHeader, _hashed),
    "L2Block": (L2Block, _hashed),
    "TxEffect": (TxEffect, _plain),
    "BlockProposal": (BlockProposal, _signed),
    "CheckpointProposal": (CheckpointProposal, _signed),
    "CheckpointAttestation": (CheckpointAttestation, _attestation),
    "PublishedCheckpoint": (PublishedCheckpoint, _published),
}
#: Those whose form each release has of its own.
OF_PEERS: Final = (BlockProposal, CheckpointProposal, CheckpointAttestation)


def _record(question: Json) -> Json:
    kind, described = RECORDS[question["kind"]]
    release = (FOUR,) if kind in OF_PEERS else ()
    return described(kind.from_buffer(of_base64(question["data"]), *release))


def _record_json(question: Json) -> Json:
    kind, described = RECORDS[question["kind"]]
    record = kind.from_json(question["json"])
    for effect in _effects_of(record):
        check_zeros("", effect)
    return described(record)


def _effects_of(record: Any) -> list[TxEffect]:
    if isinstance(record, TxEffect):
        return [record]
    blocks = record.checkpoint.blocks if isinstance(record, PublishedCheckpoint) else [record]
    return [effect for block in blocks if isinstance(block, L2Block) for effect in block.body.tx_effects]


def _blobs(question: Json) -> Json:
    fields = of_base64(question["fields"])
    header = CheckpointHeader.from_buffer(of_base64(question["header"]))
    archive = bytes.fromhex(question["archive"][2:])
    decoded = decode_blocks(fields)
    names = {"chain_id": question["chainId"], "version": question["version"]}
    checkpoint = checkpoint_of(question["number"], header, archive, 0, decoded, **names)
    for effect in (effect for block in checkpoint.blocks for effect in block.body.tx_effects):
        check_zeros("", effect)
    return {"blocks": [[block.number, text(block.hash()), short(block.to_buffer())] for block in checkpoint.blocks]}


# ---- signed messages -------------------------------------------------------------------------------


def _message(question: Json) -> Json:
    case = Case("", Topic(question["topic"]), of_base64(question["data"]), question["slot"])
    return {"verdict": verdict_here(case)}


def _attested(question: Json) -> Json:
    indices, data = (bytes.fromhex(question[name][2:]) for name in ("indices", "data"))
    header = CheckpointHeader.from_buffer(of_base64(question["header"]))
    modifier, archive = int(question["modifier"]), bytes.fromhex(question["archive"][2:])
    committee = tuple(bytes.fromhex(member[2:]) for member in question["committee"])
    try:
        return {"valid": refusal_of(Proposal(archive, modifier, header, indices, data), committee) is None}
    except DecodeError:
        return {"valid": False}


_ANSWERS: Final[dict[str, Callable[[Json], Json]]] = {
    "record": _record,
    "recordJson": _record_json,
    "blobs": _blobs,
    "message": _message,
    "attested": _attested,
}
