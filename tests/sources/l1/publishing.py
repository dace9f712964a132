"""Checkpoints on a scripted L1: call data and events as proposers make them, and the servers that have the blobs."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import lzma
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.mutated_answers import Mutator
from tests.sources.l1.scripted_l1 import LAG, NO_HASH, Block, Published, ScriptedL1, Sent, beacon_root
from tests.sources.made_chain import Unit

from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.checkpoint import CheckpointHeader, PublishedCheckpoint, RollingCheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, keccak_256, payload_digest
from fastnode.protocol.kzg import BLOB_BYTES, blobs_of_fields, versioned_hash
from fastnode.protocol.kzg import blob_commitment as computed_commitment
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.proposals import (
    PROPOSE_SELECTOR,
    PROPOSE_WITH_BUCKET_SELECTOR,
    PROPOSE_WITH_FEES_SELECTOR,
    Proposal,
)
from fastnode.sources.l1.propose_calls import MULTICALL3

Json = dict[str, Any]
AGGREGATE3 = bytes.fromhex("82ad56cb")
#: Tests publish the same blobs again and again.
blob_commitment = functools.lru_cache(maxsize=512)(computed_commitment)
RECORDED = Path(__file__).parents[2] / "data" / "l1_recorded.json.xz"


# ---- ABI --------------------------------------------------------------------------------------


def word(value: int | bytes) -> bytes:
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


def encoded_bytes(data: bytes) -> bytes:
    return word(len(data)) + data + bytes(-len(data) % 32)


def attestations_bytes(indices: bytes, data: bytes) -> bytes:
    first = encoded_bytes(indices)
    return word(0x40) + word(0x40 + len(first)) + first + encoded_bytes(data)


def header_words(header: CheckpointHeader) -> bytes:
    fees = header.gas_fees
    parts: list[int | bytes] = [
        header.last_archive_root,
        header.block_headers_hash,
        header.blobs_hash,
        header.in_hash,
        header.epoch_out_hash,
        header.slot_number,
        header.timestamp,
        header.coinbase,
        header.fee_recipient,
        fees.fee_per_da_gas,
        fees.fee_per_l2_gas,
        header.total_mana_used,
    ]
    if header.accumulated_fees is not None:
        parts.append(header.accumulated_fees)
    return b"".join(map(word, parts))


def propose_call(
    header: CheckpointHeader,
    archive_root: bytes,
    modifier: int,
    commitments: Sequence[bytes],
    indices: bytes,
    signed: bytes,
) -> bytes:
    """Call data of ``propose``."""
    head = word(archive_root) + modifier.to_bytes(32, "big", signed=True)
    attestations = attestations_bytes(indices, signed)
    signers = word(0)
    counts_fees = header.accumulated_fees is not None
    has_hint = isinstance(header, RollingCheckpointHeader)
    selector = PROPOSE_WITH_FEES_SELECTOR if counts_fees else PROPOSE_SELECTOR
    head_bytes = (20 + counts_fees + has_hint) * 32
    offsets = [head_bytes, head_bytes + len(attestations)]
    blob_input = encoded_bytes(bytes([len(commitments)]) + b"".join(commitments))
    return (
        (PROPOSE_WITH_BUCKET_SELECTOR if has_hint else selector)
        + head
        + header_words(header)
        + (word(7) if has_hint else b"")
        + word(offsets[0])
        + word(offsets[1])
        + word(27)
        + word(1)
        + word(2)
        + word(offsets[1] + len(signers))
        + attestations
        + signers
        + blob_input
    )


def propose_data(published: PublishedCheckpoint, commitments: Sequence[bytes], indices: bytes, signed: bytes) -> bytes:
    checkpoint = published.checkpoint
    root, modifier = checkpoint.archive.root, checkpoint.fee_asset_price_modifier
    return propose_call(checkpoint.header, root, modifier, commitments, indices, signed)


def multicall_data(calls: Sequence[tuple[bytes, bytes]]) -> bytes:
    """``aggregate3`` with calls that may fail."""
    tuples = [word(target) + word(1) + word(0x60) + encoded_bytes(data) for target, data in calls]
    offsets, at = [], 32 * len(tuples)
    for item in tuples:
        offsets.append(word(at))
        at += len(item)
    return AGGREGATE3 + word(0x20) + word(len(tuples)) + b"".join(offsets) + b"".join(tuples)


def proposer_multicall_data(calls: Sequence[tuple[bytes, bytes]]) -> bytes:
    """``multicall`` of a proposer contract."""
    selector = keccak_256(b"multicall((address,address,bytes,uint256,uint256)[])")[:4]
    tuples = [
        word(bytes(20)) + word(target) + word(0xA0) + word(0) + word(10**6) + encoded_bytes(data)
        for target, data in calls
    ]
    offsets, at = [], 32 * len(tuples)
    for item in tuples:
        offsets.append(word(at))
        at += len(item)
    return selector + word(0x20) + word(len(tuples)) + b"".join(offsets) + b"".join(tuples)


def event_data(hashes: Sequence[bytes], digest: bytes, attestations_hash: bytes) -> str:
    return hex_data(word(0x60) + digest + attestations_hash + word(len(hashes)) + b"".join(hashes))


# ---- L1 ---------------------------------------------------------------------------------------


@dataclass
class Sheet:
    """A checkpoint ready to be proposed; tests change parts of it before they publish it."""

    published: PublishedCheckpoint
    domain: SigningDomain
    indices: bytes = b""
    signed: bytes = b""
    blobs: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blobs = blobs_of_fields(checkpoint_blob_fields(self.published.checkpoint.blocks))
        self.commitments = [blob_commitment(blob) for blob in self.blobs]
        self.hashes = [versioned_hash(item) for item in self.commitments]

    @property
    def rollup(self) -> bytes:
        return self.domain.rollup

    @property
    def digest(self) -> bytes:
        """Payload digest of the event."""
        checkpoint = self.published.checkpoint
        root, modifier = checkpoint.archive.root, checkpoint.fee_asset_price_modifier
        return payload_digest(checkpoint.header, root, modifier, self.domain)

    @property
    def call_data(self) -> bytes:
        return propose_data(self.published, self.commitments, self.indices, self.signed)

    def transaction(self, to: bytes | None = None, data: bytes | None = None) -> Published:
        """Through Multicall3, if nothing else is said."""
        checkpoint = self.published.checkpoint
        if data is None:
            to, data = MULTICALL3, multicall_data([(self.rollup, self.call_data)])
        attested = Proposal.from_call_data(self.call_data).attestations_hash
        return Published(
            checkpoint.number,
            checkpoint.archive.root,
            event_data(self.hashes, self.digest, attested),
            hex_data(hashlib.sha256(data + checkpoint.archive.root).digest()),
            hex_data(to or self.rollup),
            hex_data(data),
            checkpoint.header.slot_number,
        )


class PublishingL1(ScriptedL1):
    """``beacon`` gets the blobs of what is published."""

    def __init__(self, node_info: Json, constants: Json) -> None:
        super().__init__(node_info, constants)
        self.beacon = ScriptedBeacon()
        #: A chain file that has the genesis of its rollup, if that is none of the usual ones.
        self.genesis: Path | None = None

    @property
    def rollup(self) -> bytes:
        return bytes.fromhex(self.addresses.rollup[2:])

    def sheet(self, published: Json | PublishedCheckpoint) -> Sheet:
        decoded = PublishedCheckpoint.from_json(published) if isinstance(published, dict) else published
        return Sheet(decoded, SigningDomain(self.chain_id, self.rollup))

    def publish(self, sheet: Sheet, transaction: Published | None = None, **changes: Any) -> Block:
        """A new block with the proposal; messages go to the checkpoint after the next one then."""
        item = transaction or sheet.transaction()
        head = self.head
        archives = (*head.archives[: item.number], item.archive)
        block = self.mine(
            archives=archives,
            proposals=(item,),
            in_progress=max(head.in_progress, item.number + 1 + LAG),
            **changes,
        )
        self.beacon.put(self.beacon.slot_of(block), sheet.blobs)
        return block

    def prune_to(self, number: int) -> None:
        """The contract gives up checkpoints."""
        self.mine(archives=self.head.archives[: number + 1])


class RecordedL1(PublishingL1):
    """The L1 of a recorded network: its blocks, events, transactions and blobs."""

    def __init__(self, node_info: Json, constants: Json) -> None:
        super().__init__(node_info, constants)
        recorded = json.loads(lzma.decompress(RECORDED.read_bytes()))
        proposals: dict[int, Published] = {}
        for item in recorded["checkpoints"]:
            log = item["log"]
            number = int(log["topics"][1], 16)
            archive = bytes.fromhex(log["topics"][2][2:])
            proposals[log["blockNumber"]] = Published(
                number, archive, log["data"], log["transactionHash"], item["to"], item["input"]
            )
            self.beacon.put(log["blockNumber"], [bytes.fromhex(text[2:]) for text in item["blobs"]])
        messages: dict[int, list[Sent]] = {}
        for log in recorded["messages"]:
            data = bytes.fromhex(log["data"][2:])
            sent = Sent(
                int(log["topics"][1], 16),
                int.from_bytes(data[:32], "big"),
                bytes.fromhex(log["topics"][2][2:]),
                data[32:48],
            )
            messages.setdefault(log["blockNumber"], []).append(sent)
        proven = dict(recorded["proven"])
        self.finality = 16
        genesis = self.blocks[0].archives
        block = Block(0, NO_HASH, NO_HASH, 0, archives=genesis)
        self.blocks = []
        for item in recorded["blocks"]:
            number = item["number"]
            here = proposals.get(number)
            logs = tuple(messages.get(number, ()))
            block = replace(
                block,
                number=number,
                hash=bytes.fromhex(item["hash"][2:]),
                parent_hash=bytes.fromhex(item["parentHash"][2:]),
                timestamp=item["timestamp"],
                logs=logs,
                sent=(*block.sent, *logs),
                proposals=() if here is None else (here,),
                archives=block.archives if here is None else (*block.archives, here.archive),
                proven=proven.get(number, block.proven),
                in_progress=block.in_progress if here is None else here.number + 1 + LAG,
            )
            self.blocks.append(block)
        self.recorded = self.blocks

    def show(self, number: int) -> None:
        """As it was when block ``number`` was the newest one."""
        with self.lock:
            self.blocks = self.recorded[: number + 1]


def send_messages(l1: PublishingL1, unit: Unit) -> None:
    if unit.messages and not any(item.checkpoint == unit.number for item in l1.head.sent):
        l1.send(*(bytes.fromhex(text[2:]) for text in unit.messages), checkpoint=unit.number)


def publish(l1: PublishingL1, unit: Unit, **changes: Any) -> None:
    """A checkpoint of the chain, its messages before it."""
    send_messages(l1, unit)
    assert unit.published is not None
    l1.publish(l1.sheet(unit.published), **changes)


# ---- consensus client -------------------------------------------------------------------------


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave in the middle are nothing to talk about."""


class ScriptedBeacon:
    """A consensus client on a real socket; its slots are the numbers of L1 blocks, or those of its times."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: By slot: versioned hash and blob.
        self.blobs: dict[int, list[tuple[bytes, bytes]]] = {}
        #: (time of slot 0, seconds per slot) if it says so.
        self.times: tuple[int, int] | None = None
        self.serves_blobs = True
        self.serves_sidecars = True
        #: Forms of the hashes in a query; by default that of the specification.
        self.takes_repeated = True
        self.takes_joined = False
        #: Statuses with which it refuses paths: ``blobs``, ``blob_sidecars``, ``headers``.
        self.refusals: dict[str, int] = {}
        #: Gives blobs as bytes to who takes them.
        self.serves_bytes = False
        #: What it gives in the place of a blob.
        self.tamper: Callable[[bytes], bytes] = lambda blob: blob
        self.claim: Callable[[bytes], str] = _commitment
        self.hidden: set[bytes] = set()
        self.cut = 0  # characters that are missing at the end of a blob
        #: Seconds before each answer.
        self.delay_s = 0.0
        #: Status to answer everything with.
        self.status: int | None = None
        #: Mutates what it answers; None: nothing does.
        self.disturb: Mutator | None = None
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._server: http.server.ThreadingHTTPServer | None = None

    def put(self, slot: int, blobs: Sequence[bytes]) -> None:
        with self.lock:
            known = [(versioned_hash(blob_commitment(blob)), blob) for blob in blobs]
            self.blobs.setdefault(slot, []).extend(known)

    def slot_of(self, block: Block) -> int:
        return block.number if self.times is None else (block.timestamp - self.times[0]) // self.times[1]

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        beacon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body behind its head would wait 40 ms for the client

            def do_GET(self) -> None:
                time.sleep(beacon.delay_s)
                with beacon.lock:
                    beacon.requests.append(self.path)
                    beacon.headers.append(dict(self.headers.items()))
                    status, answer = beacon.answer(self.path)
                takes_bytes = "application/octet-stream" in self.headers.get("Accept", "")
                is_bytes = takes_bytes and beacon.serves_bytes and status == 200
                body = _joined(answer) if is_bytes else json.dumps(answer).encode()
                if beacon.disturb is not None and beacon.disturb.is_turn():
                    beacon.disturb.send(self, body)
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/octet-stream" if is_bytes else "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing on standard error."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def answer(self, target: str) -> tuple[int, Json]:
        parts = urlsplit(target)
        if self.status is not None:
            return self.status, {}
        *_, what, where = parts.path.split("/")
        if self.times is not None and where == "genesis":
            return 200, {"data": {"genesis_time": str(self.times[0])}}
        if self.times is not None and where == "spec":
            return 200, {"data": {"SECONDS_PER_SLOT": str(self.times[1])}}
        if what == "beacon" and where == "headers":
            return 200, {"data": []}
        if what == "headers":
            slot = max(self.blobs, default=0) if where == "head" else known_slots().get(where)
            if slot is None:
                return 404, {}
            return 200, {"data": {"header": {"message": {"slot": str(slot)}}}}
        refusal = self.refusals.get(what)
        if refusal is not None:
            return refusal, {"code": refusal, "message": f"{what} is not offered"}
        if what == "blobs" and self.serves_blobs:
            values = parse_qs(parts.query).get("versioned_hashes", [])
            if len(values) > 1 and not self.takes_repeated:
                return 400, {"code": 400, "message": "versioned_hashes is given more than once"}
            if any("," in value for value in values) and not self.takes_joined:
                return 400, {"code": 400, "message": "invalid versioned_hashes: not 32 bytes"}
            if values and not (self.takes_repeated or self.takes_joined):
                return 400, {"code": 400, "message": "unknown parameter versioned_hashes"}
            asked = [item for value in values for item in value.split(",")]
            return self._listed(
                where, lambda hash_, blob: self._hex(blob) if not asked or hex_data(hash_) in asked else None
            )
        if what == "blob_sidecars" and self.serves_sidecars:
            return self._listed(where, lambda _, blob: {"blob": self._hex(blob), "kzg_commitment": self.claim(blob)})
        return 404, {}

    def _hex(self, blob: bytes) -> str:
        text = "0x" + blob.ljust(BLOB_BYTES, b"\0").hex()
        return text[: len(text) - self.cut]

    def _listed(self, slot: str, shown: Callable[[bytes, bytes], Any]) -> tuple[int, Json]:
        blobs = self.blobs.get(int(slot), ())
        listed = [shown(hash_, self.tamper(blob)) for hash_, blob in blobs if hash_ not in self.hidden]
        return 200, {"data": [item for item in listed if item is not None]}


@functools.cache
def known_slots() -> dict[str, int]:
    """Of the parents of the first blocks."""
    return {hex_data(beacon_root(number)): number - 1 for number in range(1, 10_000)}


def _joined(answer: Json) -> bytes:
    return b"".join(bytes.fromhex(text[2:]) for text in answer["data"])


def _commitment(blob: bytes) -> str:
    return hex_data(blob_commitment(blob))


@contextmanager
def served(l1: PublishingL1) -> Iterator[PublishingL1]:
    """L1 and its consensus client, on their sockets."""
    l1.start()
    l1.beacon.start()
    try:
        yield l1
    finally:
        l1.stop()
        l1.beacon.stop()
