"""Answers of this node to requests.  Blocking: called in a thread of the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fastnode.errors import DecodeError, FastnodeError
from fastnode.p2p.judging.host import Host
from fastnode.p2p.messages.request_forms import (
    AuthRequest,
    AuthResponse,
    BlockTxsRequest,
    BlockTxsResponse,
    StatusMessage,
    read_hashes,
    write_txs,
)
from fastnode.p2p.node.request_limits import Request, Status

__all__ = ["answer"]

#: Bytes of transactions in one answer: the reference takes 512 KiB for each that it has asked for.
_TXS_BYTES_MAX: Final = 16 << 20


def answer(host: Host, request: Request, data: bytes) -> tuple[Status, bytes]:
    """Status, and the answer before compression."""
    try:
        return _ANSWERS[request](host, data)
    except DecodeError:
        return Status.BADLY_FORMED_REQUEST, b""
    except FastnodeError:
        return Status.INTERNAL_ERROR, b""


def _ping(_host: Host, _data: bytes) -> tuple[Status, bytes]:
    return Status.SUCCESS, b"pong"


def _status(host: Host, data: bytes) -> tuple[Status, bytes]:
    StatusMessage.from_buffer(data)
    return Status.SUCCESS, host.status().to_buffer()


def _tx(host: Host, data: bytes) -> tuple[Status, bytes]:
    return Status.SUCCESS, write_txs(_held(host, read_hashes(data)))


def _held(host: Host, hashes: list[bytes]) -> list[bytes]:
    found, size = [], 0
    for tx_hash in dict.fromkeys(hashes):
        tx = host.tx(tx_hash)
        if tx is not None:
            size += len(tx)
            if size > _TXS_BYTES_MAX:
                break  # the rest is asked of others
            found.append(tx)
    return found


def _block(host: Host, data: bytes) -> tuple[Status, bytes]:
    if len(data) != 32:
        raise DecodeError("block: no number of 32 bytes")
    return Status.SUCCESS, host.block(int.from_bytes(data, "big")) or b""


def _block_txs(host: Host, data: bytes) -> tuple[Status, bytes]:
    request = BlockTxsRequest.from_buffer(data)
    hashes = host.tx_hashes_of(request.archive_root)
    if hashes is None:
        if not request.hashes:
            return Status.NOT_FOUND, b""
        txs = tuple(_held(host, list(request.hashes)))
        return Status.SUCCESS, BlockTxsResponse(bytes(32), txs, ()).to_buffer()
    wanted = [tx_hash for tx_hash, bit in zip(hashes, request.wanted, strict=False) if bit]
    held = tuple(host.tx(tx_hash) is not None for tx_hash in hashes)
    txs = tuple(_held(host, wanted))
    return Status.SUCCESS, BlockTxsResponse(request.archive_root, txs, held).to_buffer()


def _auth(host: Host, data: bytes) -> tuple[Status, bytes]:
    signature = host.authenticate(AuthRequest.from_buffer(data).signed)
    return Status.SUCCESS, b"" if signature is None else AuthResponse(host.status(), signature).to_buffer()


_ANSWERS: Final[Mapping[Request, Callable[[Host, bytes], tuple[Status, bytes]]]] = {
    Request.PING: _ping,
    Request.STATUS: _status,
    Request.TX: _tx,
    Request.BLOCK: _block,
    Request.BLOCK_TXS: _block_txs,
    Request.AUTH: _auth,
}
