"""Signed messages of peers, bent field by field, and what published nodes judge of each.

The verdicts in tests/data/p2p/verdicts.json are those of the validators of release 4.1.2:
``scripts/compare-transactions --node FOLDER --what messages --record-verdicts`` asks them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from coincurve import PrivateKey
from tests.mempool.recorded import recorded_tx, recordings
from tests.p2p.vectors import FOLDER, recorded

from fastnode.p2p.gossip.topics import Topic, decompressed, unpack
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointProposal, checkpoint_header_bytes
from fastnode.p2p.messages.request_forms import write_hashes, write_txs
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import keccak_256, payload_digest, signed_digest
from fastnode.protocol.fields import MODULUS
from fastnode.protocol.header import HEADER_BYTES
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_layout import USUAL

VERDICTS: Final = FOLDER / "verdicts.json"
KEY: Final = PrivateKey((7).to_bytes(32, "big"))
OTHER: Final = PrivateKey((8).to_bytes(32, "big"))
ADDRESS: Final = keccak_256(KEY.public_key.format(compressed=False)[1:])[-20:]
BIG: Final = (MODULUS + 3).to_bytes(32, "big")
ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
FLAGS: Final = (0, 1, 2, 255, 256, 1 << 31, (1 << 32) - 1)
RECOVERIES: Final = (0, 1, 2, 26, 27, 28, 29, 255, 1 << 31)


class Case(NamedTuple):
    """``slot``: the one that is now; ``data``: uncompressed, with its envelope."""

    name: str
    topic: Topic
    data: bytes
    slot: int


def _payload(name: str) -> bytes:
    return unpack(decompressed(Topic(name.partition("-")[0]), recorded(f"{name}.message")))


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def sign(digest: bytes, form: str = "", key: PrivateKey = KEY) -> bytes:
    made = key.sign_recoverable(digest, hasher=None)
    r, s, v = made[:32], int.from_bytes(made[32:64], "big"), made[64]
    if form == "high s":
        s, v = ORDER - s, v ^ 1
    recovery = v if form == "v 0 or 1" else v + 27
    if form.startswith("v="):
        recovery = int(form[2:])
    parts = {"r=0": bytes(32), "r big": b"\xff" * 32}.get(form, r), {"s=0": 0, "s big": ORDER + 1}.get(form, s)
    return bytes(68) if form == "empty" else parts[0] + parts[1].to_bytes(32, "big") + u32(recovery)


def sign_message(message: bytes, form: str = "", key: PrivateKey = KEY) -> bytes:
    return sign(signed_digest(keccak_256(message)), form, key)


FORMS: Final = ("high s", "v 0 or 1", "r=0", "s=0", "r big", "s big", "empty", *(f"v={value}" for value in RECOVERIES))

CHECKPOINT_HEADER_BYTES: Final = checkpoint_header_bytes(FOUR)
BLOCK: Final = BlockProposal.from_buffer(_payload("block_proposal-1"), FOUR)
CHECKPOINT: Final = CheckpointProposal.from_buffer(_payload("checkpoint_proposal-last-block"), FOUR)
TX: Final = _payload("tx-1")
RAW_BLOCK: Final = BLOCK.header.to_buffer()
RAW_CHECKPOINT: Final = CHECKPOINT.header.to_buffer()


def signed_txs(txs: list[bytes], form: str = "", key: PrivateKey = KEY) -> bytes:
    return u32(1) + write_txs(txs) + sign_message(u32(4) + write_txs(txs), form, key)


def block(
    raw: bytes = RAW_BLOCK,
    index: int = 0,
    in_hash: bytes = BLOCK.in_hash,
    archive: bytes = BLOCK.archive_root,
    hashes: tuple[bytes, ...] = (TX[:32],),
    tail: bytes = bytes(4),
    form: str = "",
    key: PrivateKey = KEY,
) -> bytes:
    content = raw + u32(index) + in_hash + archive
    return content + sign_message(u32(0) + content + write_hashes(hashes), form, key) + write_hashes(hashes) + tail


def last_block(
    hashes: tuple[bytes, ...] = (TX[:32],), tail: bytes = bytes(4), key: PrivateKey = KEY, flag: int = 1
) -> bytes:
    raw = BLOCK.header.to_buffer()
    content = raw + u32(0) + CHECKPOINT.header.in_hash + CHECKPOINT.archive_root
    signature = sign_message(u32(0) + content + write_hashes(hashes), key=key)
    return u32(flag) + raw + u32(0) + signature + write_hashes(hashes) + tail


def checkpoint(
    raw: bytes = RAW_CHECKPOINT,
    archive: bytes = CHECKPOINT.archive_root,
    modifier: int = 0,
    tail: bytes = bytes(4),
    form: str = "",
    key: PrivateKey = KEY,
) -> bytes:
    content = raw + archive + modifier.to_bytes(32, "big", signed=True)
    return content + sign_message(u32(3) + content, form, key) + tail


def attestation(
    raw: bytes = RAW_CHECKPOINT,
    archive: bytes = CHECKPOINT.archive_root,
    modifier: int = 0,
    form: str = "",
    key: PrivateKey = KEY,
    proposer: bytes | None = None,
) -> bytes:
    content = raw + archive + modifier.to_bytes(32, "big", signed=True)
    try:
        digest = payload_digest(CheckpointHeader.from_buffer(raw), archive, modifier)
    except ValueError:  # nobody can sign what makes no sense
        digest = bytes(32)
    named = sign_message(u32(3) + content) if proposer is None else proposer
    return content + sign(signed_digest(digest), form, key) + named


def enveloped(payload: bytes) -> bytes:
    return u32(len(payload)) + payload


# ---- cases ---------------------------------------------------------------------------------------


def _blocks() -> Iterator[tuple[str, bytes]]:
    other = bytes(31) + b"\1"
    yield "as it should be", block()
    for name, tail in _tails():
        yield f"with {name} behind it", block(tail=bytes(4) + tail)
    yield "without the flag of its transactions", block(tail=b"")
    for flag in FLAGS:
        yield f"flag of its transactions {flag} and nothing", block(tail=u32(flag))
        yield f"flag of its transactions {flag}", block(tail=u32(flag) + signed_txs([TX])[4:])
    yield "with its transaction twice", block(tail=signed_txs([TX, TX]))
    yield "with no transaction, signed", block(tail=signed_txs([]))
    yield "with a transaction that it does not list", block(hashes=(), tail=signed_txs([TX]))
    yield "with a transaction of another hash that it lists", block(hashes=(other,), tail=signed_txs([other + TX[32:]]))
    yield "with a transaction of another hash", block(tail=signed_txs([other + TX[32:]]))
    yield "with both", block(hashes=(other,), tail=signed_txs([TX, other + TX[32:]]))
    yield "with transactions of another signer", block(tail=signed_txs([TX], key=OTHER))
    yield "with transactions signed in an empty form", block(tail=signed_txs([TX], "empty"))
    yield "with a byte in its list of transactions", block(tail=signed_txs([TX + b"\0"]))
    yield "with a transaction cut off", block(tail=signed_txs([TX])[:5000])
    yield "with a transaction whose flag is 2", block(tail=_with_flag_of_tx(2))
    yield "a hash above the modulus", block(hashes=(BIG,))
    yield "a hash twice", block(hashes=(TX[:32], TX[:32]))
    yield "3,000 hashes", block(hashes=tuple(number.to_bytes(32, "big") for number in range(3000)))
    yield "70,000 hashes", block(hashes=tuple(number.to_bytes(32, "big") for number in range(70_000)))
    yield "inHash above the modulus", block(in_hash=BIG)
    yield "archive root above the modulus", block(archive=BIG)
    for index in (1, 72, 1 << 31, (1 << 32) - 1):
        yield f"index {index}", block(index=index)
    for name, raw in _bent(RAW_BLOCK):
        yield f"header {name}", block(raw=raw)
    for form in FORMS:
        yield f"signature {form}", block(form=form)
    yield "another proposer", block(key=OTHER)
    whole = block()
    for length in (0, 1, 31, HEADER_BYTES, HEADER_BYTES + 3, len(whole) - 37, len(whole) - 5, len(whole) - 1):
        yield f"{length} bytes of it", whole[:length]


def _with_flag_of_tx(flag: int) -> bytes:
    """Signed as it is written again."""
    return signed_txs([TX]).replace(TX, TX[:32] + bytes([flag]) + TX[33:]) if TX[32] == 1 else signed_txs([TX])


def _checkpoints() -> Iterator[tuple[str, bytes]]:
    yield "as it should be", checkpoint()
    for name, tail in _tails():
        yield f"with {name} behind it", checkpoint(tail=bytes(4) + tail)
    yield "without the flag of its last block", checkpoint(tail=b"")
    for flag in FLAGS:
        yield f"flag of its last block {flag} and nothing", checkpoint(tail=u32(flag))
        yield f"flag of its last block {flag}", checkpoint(tail=last_block(flag=flag))
    yield "last block without the flag of its transactions", checkpoint(tail=last_block(tail=b""))
    yield "last block with its transaction", checkpoint(tail=last_block(tail=signed_txs([TX])))
    yield "last block with what it does not list", checkpoint(tail=last_block(hashes=(), tail=signed_txs([TX])))
    yield "last block of another signer", checkpoint(tail=last_block(key=OTHER))
    yield "last block, and a byte behind it", checkpoint(tail=last_block() + b"\0")
    yield "archive root above the modulus", checkpoint(archive=BIG)
    for modifier in (-1, 1, (1 << 255) - 1, -(1 << 255)):
        yield f"modifier {modifier}", checkpoint(modifier=modifier)
    for name, raw in _bent(RAW_CHECKPOINT):
        yield f"header {name}", checkpoint(raw=raw)
    for form in FORMS:
        yield f"signature {form}", checkpoint(form=form)
    yield "another proposer", checkpoint(key=OTHER)
    whole = checkpoint()
    for length in (0, 1, CHECKPOINT_HEADER_BYTES, len(whole) - 5, len(whole) - 1):
        yield f"{length} bytes of it", whole[:length]


def _attestations() -> Iterator[tuple[str, bytes]]:
    whole = attestation()
    yield "as it should be", whole
    for name, tail in _tails():
        yield f"with {name} behind it", whole + tail
    yield "archive root above the modulus", attestation(archive=BIG)
    for name, raw in _bent(RAW_CHECKPOINT):
        yield f"header {name}", attestation(raw=raw)
    content = RAW_CHECKPOINT + CHECKPOINT.archive_root + bytes(32)
    for form in FORMS:
        yield f"signature {form}", attestation(form=form)
        yield f"proposer's signature {form}", attestation(proposer=sign_message(u32(3) + content, form))
    yield "another attester", attestation(key=OTHER)
    yield "another proposer", attestation(proposer=sign_message(u32(3) + content, key=OTHER))
    yield "the proposer's signature of something else", attestation(proposer=sign_message(b"x"))
    for length in (0, 1, CHECKPOINT_HEADER_BYTES, len(whole) - 69, len(whole) - 1):
        yield f"{length} bytes of it", whole[:length]


def _tails() -> Iterator[tuple[str, bytes]]:
    for tail in (b"\0", b"\1", b"\xff" * 4, bytes(1000)):
        yield f"{len(tail)} bytes {tail[0]}", tail


def _bent(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Each byte of the first kind of place is another one, and words are above the modulus."""
    for place in range(0, len(raw), 13):
        yield f"byte {place}", raw[:place] + bytes([raw[place] ^ 0x80]) + raw[place + 1 :]
    for place in range(0, len(raw) - 32, 4):
        yield f"word {place} above the modulus", raw[:place] + BIG + raw[place + 32 :]


def cases() -> Iterator[Case]:
    slot = BLOCK.slot
    kinds = (
        (Topic.BLOCK_PROPOSAL, slot, _blocks()),
        (Topic.CHECKPOINT_PROPOSAL, CHECKPOINT.slot, _checkpoints()),
        (Topic.CHECKPOINT_ATTESTATION, CHECKPOINT.slot, _attestations()),
    )
    for topic, now, bent in kinds:
        whole = b""
        for name, payload in bent:
            whole = whole or payload
            yield Case(name, topic, enveloped(payload), now)
        for later in (-2, -1, 1, 2):
            yield Case(f"in slot {later:+}", topic, enveloped(whole), now + later)
        yield Case("a byte behind the envelope's payload", topic, enveloped(whole) + b"\0", now)
        yield Case("1,000 bytes behind the envelope's payload", topic, enveloped(whole) + bytes(1000), now)
        yield Case("an envelope that says one byte more", topic, u32(len(whole) + 1) + whole, now)
        yield Case("an envelope that says 4 GB", topic, b"\xff" * 4 + whole, now)
        yield Case("an envelope of three bytes", topic, bytes(3), now)
    yield from _transactions()


_FIRST_FLAG: Final = 32 + USUAL.revertible + USUAL.call_requests + 64
_TEARDOWN_FLAG: Final = 32 + USUAL.teardown_request + 64


def _public_tx() -> bytes:
    return next(tx.to_buffer() for tx in map(recorded_tx, recordings()) if tx.data.app_calls)


def _transactions() -> Iterator[Case]:
    """Only whether they are read, and to what: their rules have tests of their own."""
    forms = {
        "as it should be": TX,
        "a byte behind it": TX + b"\0",
        "1,000 bytes behind it": TX + bytes(1000),
        "another hash": bytes(32) + TX[32:],
        "a hash above the modulus": BIG + TX[32:],
        "a byte less": TX[:-1],
        "nothing": b"",
        "a payload whose tail is missing": TX[: len(TX) // 2],
    }
    forms |= {f"flag {flag}": TX[:32] + bytes([flag]) + TX[33:] for flag in (0, 1, 2, 255)}
    public = _public_tx()
    for name, place in (("its kind", 32), ("its first call", _FIRST_FLAG), ("its teardown call", _TEARDOWN_FLAG)):
        for flag in (1, 2, 255):
            forms[f"flag {flag} of {name}, public"] = public[:place] + bytes([flag]) + public[place + 1 :]
    for name, payload in forms.items():
        yield Case(name, Topic.TX, enveloped(payload), 0)
    yield Case("a byte behind the envelope's payload", Topic.TX, enveloped(TX) + b"\0", 0)


# ---- recording -----------------------------------------------------------------------------------


def digest(case: Case) -> str:
    """So that a verdict is of these very bytes."""
    return hashlib.sha256(case.data + u32(case.slot)).hexdigest()[:8]


def key_of(case: Case) -> str:
    return f"{case.topic.value}: {case.name}"


def question_of(case: Case) -> dict[str, Any]:
    return {
        "op": "message",
        "topic": case.topic.value,
        "data": base64.b64encode(case.data).decode(),
        "slot": case.slot,
        "proposer": "0x" + ADDRESS.hex(),
    }


def record(answers: Sequence[str]) -> None:
    """Write the verdicts of all cases."""
    found = {key_of(case): [digest(case), answer] for case, answer in zip(cases(), answers, strict=True)}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    VERDICTS.write_text(f"{{\n{lines}\n}}\n")
