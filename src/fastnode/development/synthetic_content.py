"""Random blocks: the content of a synthetic chain, without its roots.

Everything follows from the seed.  Values are random field elements, so keys of the indexed trees are spread as
hashes are on a real chain, where they are the outcome of Poseidon2.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PRIVATE_LOG_FIELDS,
    PRIVATE_LOGS_PER_TX_MAX,
    PUBLIC_DATA_WRITES_PER_TX_MAX,
    PUBLIC_LOG_HEADER_FIELDS,
    PUBLIC_LOGS_FLAT_FIELDS_MAX,
)
from fastnode.protocol.effects import Body, PrivateLog, PublicDataWrite, PublicLog, TxEffect
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, split_fields
from fastnode.records import dataclass

__all__ = ["ChainShape", "ContentGenerator", "random_fields"]

PUBLIC_LOG_FIELDS: Final = 4
#: Contracts that logs and messages are spread over.
CONTRACTS: Final = 16
#: Share of the public data writes that goes to slots that were written before.
REWRITE_SHARE: Final = 0.5
#: Slots remembered for that.
REMEMBERED_SLOTS: Final = 4096
FEE_MAX: Final = 10**18
#: Share of the txs of wallets that publish a contract class or have hundreds of logs.
LONG_SHARE: Final = 1 / 256
LOGS_OF_SHORT_MAX: Final = 64
_PADDING: Final = (ZERO_FIELD,) * PRIVATE_LOG_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainShape:
    """Shape of a synthetic chain; ValueError from :meth:`check` when a number is out of its range.

    With ``vary`` every count of a tx, of messages and of txs in a block is drawn between its minimum and the
    number given here; without it, it is that number.  ``proposed`` blocks stand behind the last checkpoint.

    With ``wallets`` each tx has as much of everything as one of a recorded wallet, and the numbers for a tx given here
    do not count; few are long: a contract class published, hundreds of logs.  Without ``commitments`` the blobs
    hashes of checkpoints are made up, which only a node that derives the chain from L1 would see.
    """

    blocks: int
    txs: int = 4
    nullifiers: int = 4
    note_hashes: int | None = None  # per tx; None: as many as nullifiers
    writes: int = 2
    private_logs: int = 1
    public_logs: int = 1
    l2_to_l1: int = 1
    l1_to_l2: int = 2  # per checkpoint
    blocks_per_checkpoint: int = 3
    proposed: int = 0
    seed: int = 1
    vary: bool = False
    wallets: bool = False
    commitments: bool = True

    @property
    def notes(self) -> int:
        """Note hashes of a tx."""
        return self.nullifiers if self.note_hashes is None else self.note_hashes

    def check(self) -> None:
        public_logs_max = PUBLIC_LOGS_FLAT_FIELDS_MAX // (PUBLIC_LOG_HEADER_FIELDS + PUBLIC_LOG_FIELDS)
        for name, value, low, high in (
            ("blocks", self.blocks, 1, 10_000_000),
            ("txs", self.txs, 0, 1_000),
            ("nullifiers", self.nullifiers, 1, NULLIFIERS_PER_TX_MAX),
            ("note hashes", self.notes, 0, NOTE_HASHES_PER_TX_MAX),
            ("writes", self.writes, 0, PUBLIC_DATA_WRITES_PER_TX_MAX),
            ("private logs", self.private_logs, 0, PRIVATE_LOGS_PER_TX_MAX),
            ("public logs", self.public_logs, 0, public_logs_max),
            ("messages to L1", self.l2_to_l1, 0, L2_TO_L1_MESSAGES_PER_TX_MAX),
            ("messages from L1", self.l1_to_l2, 0, L1_TO_L2_MESSAGES_PER_CHECKPOINT),
            ("blocks per checkpoint", self.blocks_per_checkpoint, 1, 72),
            ("proposed blocks", self.proposed, 0, self.blocks),
            ("seed", self.seed, 0, 2**32 - 1),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name}: {value} is not within {low} and {high}")


def random_fields(source: random.Random, count: int) -> bytes:
    """``count`` joined random field elements below 2^253."""
    drawn = source.getrandbits(8 * FIELD_BYTES * count) & _below_modulus(count)
    return drawn.to_bytes(FIELD_BYTES * count, "little")


@lru_cache
def _below_modulus(count: int) -> int:
    """The bits that may be set: with the first three of a field cleared any value is below the modulus."""
    return int.from_bytes((b"\x1f" + b"\xff" * (FIELD_BYTES - 1)) * count, "little")


class ContentGenerator:
    """Makes one body after the other."""

    def __init__(self, shape: ChainShape, recorded: Sequence[TxEffect] = ()) -> None:
        """``recorded``: what the txs are to be like, for a shape of wallets."""
        self._shape = shape
        self._short = [effect for effect in recorded if not _is_long(effect)]
        self._long = [effect for effect in recorded if _is_long(effect)]
        self._source = random.Random(f"fastnode synthetic chain {shape.seed}")
        self._contracts = self.fields(CONTRACTS)
        self._slots: list[bytes] = []

    def fields(self, count: int) -> tuple[bytes, ...]:
        return split_fields(random_fields(self._source, count))

    def messages(self) -> tuple[bytes, ...]:
        """The L1 to L2 messages of a checkpoint.  Message hashes begin with a zero byte."""
        return tuple(b"\0" + field[1:] for field in self.fields(self._count(0, self._shape.l1_to_l2)))

    def body(self) -> Body:
        return Body(tuple(self._tx() for _ in range(self._count(0, self._shape.txs))))

    def mana(self, body: Body) -> int:
        """Something that grows with what the txs do."""
        return sum(100_000 + 1_000 * len(effect.public_data_writes) for effect in body.tx_effects)

    def _count(self, low: int, high: int) -> int:
        return self._source.randint(min(low, high), high) if self._shape.vary else high

    def _tx(self) -> TxEffect:
        if self._shape.wallets:
            is_long = self._source.random() < LONG_SHARE
            return self._tx_like(self._source.choice(self._long if is_long else self._short))
        shape = self._shape
        return TxEffect(
            revert_code=0,
            tx_hash=self.fields(1)[0],
            transaction_fee=self._source.randrange(1, FEE_MAX),
            note_hashes=self.fields(self._count(0, shape.notes)),
            nullifiers=self.fields(self._count(1, shape.nullifiers)),
            l2_to_l1_msgs=tuple(b"\0" + field[1:] for field in self.fields(self._count(0, shape.l2_to_l1))),
            public_data_writes=tuple(self._write() for _ in range(self._count(0, shape.writes))),
            private_logs=tuple(self._private_log() for _ in range(self._count(0, shape.private_logs))),
            public_logs=tuple(self._public_log() for _ in range(self._count(0, shape.public_logs))),
            contract_class_logs=(),
        )

    def _tx_like(self, model: TxEffect) -> TxEffect:
        """As much of everything as ``model`` has, with other keys and values; its contract class as it is."""
        messages, notes, nullifiers = len(model.l2_to_l1_msgs), len(model.note_hashes), len(model.nullifiers)
        drawn = self.fields(1 + notes + nullifiers + messages)
        return TxEffect(
            revert_code=model.revert_code,
            tx_hash=drawn[0],
            transaction_fee=self._source.randrange(1, FEE_MAX),
            note_hashes=drawn[1 : 1 + notes],
            nullifiers=drawn[1 + notes : 1 + notes + nullifiers],
            l2_to_l1_msgs=tuple([b"\0" + field[1:] for field in drawn[1 + notes + nullifiers :]]),
            public_data_writes=tuple([self._write() for _ in model.public_data_writes]),
            private_logs=tuple([self._private_log_of(log.emitted_length) for log in model.private_logs]),
            public_logs=tuple([self._public_log_of(len(log.fields)) for log in model.public_logs]),
            contract_class_logs=model.contract_class_logs,
        )

    def _write(self) -> PublicDataWrite:
        source = self._source
        if self._slots and source.random() < REWRITE_SHARE:
            slot = source.choice(self._slots)
        else:
            slot = random_fields(source, 1)
            if len(self._slots) < REMEMBERED_SLOTS:
                self._slots.append(slot)
            else:
                self._slots[source.randrange(REMEMBERED_SLOTS)] = slot
        return PublicDataWrite(slot, random_fields(source, 1))

    def _private_log(self) -> PrivateLog:
        return self._private_log_of(self._count(1, PRIVATE_LOG_FIELDS))

    def _private_log_of(self, length: int) -> PrivateLog:
        return PrivateLog(self.fields(length) + _PADDING[length:], length)

    def _public_log(self) -> PublicLog:
        return self._public_log_of(PUBLIC_LOG_FIELDS)

    def _public_log_of(self, length: int) -> PublicLog:
        return PublicLog(self._source.choice(self._contracts), self.fields(length))


def _is_long(effect: TxEffect) -> bool:
    return len(effect.public_logs) > LOGS_OF_SHORT_MAX or bool(effect.contract_class_logs)
