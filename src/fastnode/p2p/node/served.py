"""Answers of this node to requests.  Blocking: called in a thread of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fastnode.errors import DecodeError, FastnodeError
from fastnode.p2p.judging.host import Host
from fastnode.p2p.messages.request_forms import (
    AuthRequest,
    AuthResponse,
    BlockTxsRequest,
    BlockTxsResponse,
    StatusMessage,
    commitment_to,
    read_hashes,
    write_txs,
)
from fastnode.p2p.node.request_limits import Request, Status
from fastnode.protocol.releases import Release

__all__ = ["answer"]

#: Bytes of transactions in one answer: the reference takes 512 KiB for each that it has asked for.
_TXS_BYTES_MAX: Final = 16 << 20


def answer(host: Host, request: Request, data: bytes, release: Release) -> tuple[Status, bytes]:
    """Status, and the answer before compression."""
    try:
        return _ANSWERS[request](host, data, release)
    except DecodeError:
        return Status.BADLY_FORMED_REQUEST, b""
    except FastnodeError:
        return Status.INTERNAL_ERROR, b""


def _ping(_host: Host, _data: bytes, _release: Release) -> tuple[Status, bytes]:
    return Status.SUCCESS, b"pong"


def _status(host: Host, data: bytes, _release: Release) -> tuple[Status, bytes]:
    StatusMessage.from_buffer(data)
    return Status.SUCCESS, host.status().to_buffer()


def _tx(host: Host, data: bytes, _release: Release) -> tuple[Status, bytes]:
    return Status.SUCCESS, write_txs(list(_held(host, read_hashes(data)).values()))


def _held(host: Host, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    size = 0
    for tx_hash in dict.fromkeys(hashes):
        tx = host.tx(tx_hash)
        if tx is not None:
            size += len(tx)
            if size > _TXS_BYTES_MAX:
                break  # the rest is asked of others
            found[tx_hash] = tx
    return found


def _block(host: Host, data: bytes, _release: Release) -> tuple[Status, bytes]:
    if len(data) != 32:
        raise DecodeError("block: no number of 32 bytes")
    return Status.SUCCESS, host.block(int.from_bytes(data, "big")) or b""


def _block_txs(host: Host, data: bytes, release: Release) -> tuple[Status, bytes]:
    request = BlockTxsRequest.from_buffer(data, release)
    hashes = host.tx_hashes_of(request.archive_root)
    if release.messages.commits_to_txs:
        return Status.SUCCESS, _committed_txs(host, request, hashes).to_buffer()
    if hashes is None:
        if not request.hashes:
            return Status.NOT_FOUND, b""
        txs = tuple(_held(host, request.hashes).values())
        return Status.SUCCESS, BlockTxsResponse(bytes(32), txs, ()).to_buffer()
    wanted = [tx_hash for tx_hash, bit in zip(hashes, request.wanted, strict=False) if bit]
    held = tuple(host.tx(tx_hash) is not None for tx_hash in hashes)
    txs = tuple(_held(host, wanted).values())
    return Status.SUCCESS, BlockTxsResponse(request.archive_root, txs, held).to_buffer()


def _committed_txs(host: Host, request: BlockTxsRequest, hashes: Sequence[bytes] | None) -> BlockTxsResponse:
    """Answer from 5.x on: transactions by their places if both mean the same block, and those that are asked for by
    hash.  Who says that it has one that was asked for, and does not send it, is punished for it."""
    if hashes is None or commitment_to(hashes) != request.commitment:
        return BlockTxsResponse(b"", tuple(_held(host, request.hashes).values()), ())
    wanted = [tx_hash for tx_hash, bit in zip(hashes, request.wanted, strict=False) if bit]
    sent = _held(host, (*wanted, *request.hashes))
    asked = {*wanted, *request.hashes}
    held = tuple(tx_hash in sent if tx_hash in asked else host.tx(tx_hash) is not None for tx_hash in hashes)
    return BlockTxsResponse(b"", tuple(sent.values()), held)


def _auth(host: Host, data: bytes, _release: Release) -> tuple[Status, bytes]:
    signature = host.authenticate(AuthRequest.from_buffer(data).signed)
    return Status.SUCCESS, b"" if signature is None else AuthResponse(host.status(), signature).to_buffer()


_ANSWERS: Final[Mapping[Request, Callable[[Host, bytes, Release], tuple[Status, bytes]]]] = {
    Request.PING: _ping,
    Request.STATUS: _status,
    Request.TX: _tx,
    Request.BLOCK: _block,
    Request.BLOCK_TXS: _block_txs,
    Request.AUTH: _auth,
}
