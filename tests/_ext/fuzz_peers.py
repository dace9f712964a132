"""Subjects of the fuzz test: kernels that read what peers send (fuzz.py)."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from fastnode import kernels
from fastnode.p2p.gossip import wire as gossip_wire
from fastnode.protocol.rlp import encode as write_rlp

Spoil = Callable[[random.Random, bytes], bytes]


def peer_frames_calls(dice: random.Random, calls: Any, spoiled: Spoil) -> None:
    ours = kernels.peer_frames
    name = "topic" * dice.randrange(1, 4)
    ids = [dice.randbytes(dice.choice((0, 20, 64, 65))) for _ in range(dice.randrange(6))]
    rpc = gossip_wire.subscriptions([name] * dice.randrange(4)) + gossip_wire.message(name, dice.randbytes(20))
    rpc += gossip_wire.control(gossip_wire.ihave(name, ids), gossip_wire.iwant(ids), gossip_wire.prune(name))
    rpc = spoiled(dice, rpc)
    maxima = {key: dice.choice((0, 1, 3, 100)) for key in ("items_max", "ids_max", "topic_bytes_max")}
    calls.alone("peer_frames", ours.read_rpc, rpc, **maxima)
    calls.alone("peer_frames", ours.read_fields, rpc, dice.choice((0, 2, 100)))
    frames = b"".join(_frame(dice) for _ in range(dice.randrange(5)))
    at = dice.choice((-1, 0, 0, 0, 1, len(frames), len(frames) + 1))
    calls.alone("peer_frames", ours.yamux_frames, spoiled(dice, frames), at, 60, dice.choice((1, 9)))
    sealed = b"".join(struct.pack(">H", size) + dice.randbytes(size) for size in (0, 3, dice.randrange(300)))
    calls.alone("peer_frames", ours.sealed_messages, spoiled(dice, sealed), at, 9)
    texts = b"".join(ours.write_varint(size) + dice.randbytes(size) for size in (0, 3, dice.randrange(300)))
    length_max = dice.choice((-1, 0, 10, 300))
    calls.alone("peer_frames", ours.delimited_messages, spoiled(dice, texts), at, length_max, 9)
    head = spoiled(dice, _discovery_head(dice)) + dice.randbytes(dice.choice((0, 0, 40)))
    calls.alone("peer_frames", ours.discovery_header, head)
    calls.alone("peer_frames", ours.read_varint, dice.randbytes(dice.randrange(14)), 0)
    calls.alone("peer_frames", ours.write_varint, dice.choice((-1, 0, 1 << 64, dice.randrange(1 << 64))))


def _frame(dice: random.Random) -> bytes:
    size = dice.choice((0, 1, 40, 61))
    kind = dice.choice((0, 0, 1, 2, 3))
    return struct.pack(">BBHII", 0, kind, dice.randrange(16), dice.randrange(9), size) + bytes(0 if kind else size)


def _discovery_head(dice: random.Random) -> bytes:
    flag = dice.choice((0, 1, 2, 2, 3))
    size = (32, 24, 131 + dice.choice((0, 200, 300, 301)), 5)[flag]
    rest = bytearray(dice.randbytes(size))
    rest[32:34] = b"\x40\x21" if flag == 2 else rest[32:34]
    return b"discv5\0\1" + bytes([flag]) + bytes(12) + struct.pack(">H", size) + bytes(rest)


def rlp_calls(dice: random.Random, calls: Any, spoiled: Spoil) -> None:
    data = spoiled(dice, write_rlp(_item(dice, 0)))
    items_max, depth_max = dice.choice((0, 3, 1000)), dice.choice((0, 1, 10))
    calls.alone("rlp", kernels.rlp.decode, data, items_max=items_max, depth_max=depth_max)


def _item(dice: random.Random, depth: int) -> Any:
    if depth < 4 and dice.random() < 0.5:
        return [_item(dice, depth + 1) for _ in range(dice.randrange(5))]
    return dice.randbytes(dice.choice((0, 1, 1, 20, 55, 56, 300)))
