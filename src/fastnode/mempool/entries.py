"""Knowledge of the pool about a transaction without decoding it again: one small record each.

Record, big-endian::

      0  state u8 | flags u8 (1 = public, 2 = forwarded, 4 = proof checked)
      2  arrival u64           numbers the transactions in the order they came
     10  block u32             mined: in this block; deleted: when this was the head
     14  slot u32              protected: for a proposal of this slot; mined: likewise, should the block be undone
     18  expiration u64        seconds
     26  gas limits            da u32, l2 u32
     34  priority fee u128     per L2 gas
     50  max priority fees     da u128, l2 u128
     82  fee limit 32 | claim 32
    146  fee payer 32 | anchor block hash 32
    210  u8 n, n x nullifier 32
"""

from __future__ import annotations

import struct
from dataclasses import replace
from enum import IntEnum
from typing import Final, Self

from fastnode.errors import DatabaseError
from fastnode.mempool.pricing import claim_amount, fee_limit, priority_fee
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import Gas
from fastnode.records import dataclass

__all__ = ["PoolEntry", "TxState"]

_HEAD: Final = struct.Struct(">BBQIIQII16s16s16s32s32s32s32sB")
_FLAG_PUBLIC: Final = 1
_FLAG_FORWARDED: Final = 2
_FLAG_PROOF_CHECKED: Final = 4


class TxState(IntEnum):
    """State of a transaction of the pool in its life."""

    PENDING = 1
    #: In a block proposal: waits for its outcome, counts and lists no longer as pending.
    PROTECTED = 2
    MINED = 3
    #: Left the pool without being mined; its content is gone.
    DELETED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEntry:
    """A transaction of the pool.  Amounts are in the smallest unit of the fee asset."""

    hash: bytes
    priority_fee: int
    max_priority_fees: GasFees
    fee_limit: int
    claim: int
    fee_payer: bytes
    expiration: int
    anchor_block_hash: bytes
    nullifiers: tuple[bytes, ...]
    gas_limits: Gas
    is_public: bool
    #: Another node has taken it: it came from there, or was handed on.
    forwarded: bool = False
    #: A verifier here has found its proof valid; False where the network asks for none, or another node judged.
    proof_checked: bool = False
    state: TxState = TxState.PENDING
    arrival: int = 0
    block: int = 0
    slot: int = 0

    @classmethod
    def of(cls, tx: Tx, release: Release) -> Self:
        data = tx.data
        return cls(
            hash=data.tx_hash,
            priority_fee=priority_fee(data),
            max_priority_fees=data.max_priority_fees_per_gas,
            fee_limit=fee_limit(data),
            claim=claim_amount(tx, release),
            fee_payer=data.fee_payer,
            expiration=data.expiration_timestamp,
            anchor_block_hash=data.anchor_block_hash,
            nullifiers=data.nullifiers,
            gas_limits=data.gas_limits,
            is_public=data.is_public,
        )

    @property
    def rank(self) -> tuple[int, bytes]:
        """Orders by priority: the fee, then the hash as a number."""
        return (self.priority_fee, self.hash)

    def moved(self, state: TxState, *, block: int = 0, slot: int = 0) -> Self:
        """The same transaction in another state."""
        return replace(self, state=state, block=block, slot=slot)

    @property
    def _flags(self) -> int:
        return (
            (_FLAG_PUBLIC if self.is_public else 0)
            | (_FLAG_FORWARDED if self.forwarded else 0)
            | (_FLAG_PROOF_CHECKED if self.proof_checked else 0)
        )

    def encode(self) -> bytes:
        head = _HEAD.pack(
            self.state,
            self._flags,
            self.arrival,
            self.block,
            self.slot,
            self.expiration,
            self.gas_limits.da_gas,
            self.gas_limits.l2_gas,
            self.priority_fee.to_bytes(16, "big"),
            self.max_priority_fees.fee_per_da_gas.to_bytes(16, "big"),
            self.max_priority_fees.fee_per_l2_gas.to_bytes(16, "big"),
            self.fee_limit.to_bytes(32, "big"),
            self.claim.to_bytes(32, "big"),
            self.fee_payer,
            self.anchor_block_hash,
            len(self.nullifiers),
        )
        return head + b"".join(self.nullifiers)

    @classmethod
    def decode(cls, tx_hash: bytes, record: bytes) -> Self:
        """The inverse of :meth:`encode`; DatabaseError for anything else."""
        try:
            (
                state,
                flags,
                arrival,
                block,
                slot,
                expiration,
                da_gas,
                l2_gas,
                fee,
                max_da,
                max_l2,
                limit,
                claim,
                payer,
                anchor,
                nullifier_count,
            ) = _HEAD.unpack_from(record)
            if len(record) != _HEAD.size + nullifier_count * FIELD_BYTES:
                raise ValueError(f"{len(record)} bytes")
            return cls(
                hash=tx_hash,
                priority_fee=int.from_bytes(fee, "big"),
                max_priority_fees=GasFees(int.from_bytes(max_da, "big"), int.from_bytes(max_l2, "big")),
                fee_limit=int.from_bytes(limit, "big"),
                claim=int.from_bytes(claim, "big"),
                fee_payer=payer,
                expiration=expiration,
                anchor_block_hash=anchor,
                nullifiers=tuple(
                    record[start : start + FIELD_BYTES] for start in range(_HEAD.size, len(record), FIELD_BYTES)
                ),
                gas_limits=Gas(da_gas, l2_gas),
                is_public=bool(flags & _FLAG_PUBLIC),
                forwarded=bool(flags & _FLAG_FORWARDED),
                proof_checked=bool(flags & _FLAG_PROOF_CHECKED),
                state=TxState(state),
                arrival=arrival,
                block=block,
                slot=slot,
            )
        except (struct.error, ValueError) as error:
            raise DatabaseError(f"the pool's record of tx 0x{tx_hash.hex()} is damaged: {error}") from None
