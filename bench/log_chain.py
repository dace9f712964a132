"""A chain of logs to measure with: the same for the same number of tags, however often it is made.

Shape, per million tags (five million logs in 100,000 blocks of one transaction):

    private logs   40 a block, 4 fields each   800,000 tags
    public logs    10 a block, 4 fields each   200,000 tags of 100 contracts
    BUSY_TAG       a private tag with one log in every 100th block
    RARE_CONTRACT  a contract with one log in every block of 100 that lie evenly over the chain

How often a tag occurs is skewed, as on a chain in use: most occur once, a few hundreds of times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import Final

from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, PrivateLog, PublicLog, TxEffect
from fastnode.protocol.header import (
    EMPTY_SNAPSHOT,
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)

LOGS_PER_TAG: Final = 5
PRIVATE_LOGS_PER_BLOCK: Final = 40
PUBLIC_LOGS_PER_BLOCK: Final = 10
LOGS_PER_BLOCK: Final = PRIVATE_LOGS_PER_BLOCK + PUBLIC_LOGS_PER_BLOCK
CONTRACTS: Final = 100
RARE_LOGS: Final = 100
FIELDS_PER_LOG: Final = 4

#: Of the logs of a block, those whose tag was never seen before; the others repeat an older one.
NEW_TAGS_PER_LOG: Final = 1 / LOGS_PER_TAG
#: Exponent of the choice among older tags: the larger, the more of them go to the oldest.
SKEW: Final = 3

_ZEROS: Final = (bytes(32),) * (16 - FIELDS_PER_LOG)


def field_of(*parts: object) -> bytes:
    """A field that belongs to these parts."""
    return b"\0" + blake2b(repr(parts).encode(), digest_size=31).digest()


BUSY_TAG: Final = field_of("busy tag")
RARE_CONTRACT: Final = field_of("rare contract")


def private_tag(number: int) -> bytes:
    return field_of("private tag", number)


def contract(number: int) -> bytes:
    return field_of("contract", number % CONTRACTS)


def public_tag(number: int) -> bytes:
    """The tag of that number belongs to the contract of the same number."""
    return field_of("public tag", number)


class LogChain:
    """``tags``: about how many different tags there are after :attr:`blocks` blocks."""

    def __init__(self, tags: int) -> None:
        self.logs = tags * LOGS_PER_TAG
        self.blocks = self.logs // LOGS_PER_BLOCK
        self.private_tags = 0
        self.public_tags = 0
        self._random = random.Random(tags)

    def make(self) -> Iterator[L2Block]:
        """All blocks, in order; once."""
        return (self._block(number) for number in range(1, self.blocks + 1))

    def make_more(self, private_tags: int, public_tags: int) -> Iterator[L2Block]:
        """Blocks that follow the last one, without end, from the numbers of tags that were there after it."""
        self.private_tags, self.public_tags = private_tags, public_tags
        return (self._block(number) for number in count(self.blocks + 1))

    def _block(self, number: int) -> L2Block:
        previous, archive = field_of("archive", number - 1), field_of("archive", number)
        variables = GlobalVariables(1, 1, number, number, 36 * number, bytes(20), bytes(32), GasFees(0, 0))
        state = StateReference.of_trees(EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT)
        header = BlockHeader(AppendOnlyTreeSnapshot(previous, number), state, archive, variables, 0, 0)
        effect = TxEffect(
            revert_code=0,
            tx_hash=field_of("tx", number),
            transaction_fee=0,
            note_hashes=self._fields(2),
            nullifiers=self._fields(2),
            l2_to_l1_msgs=(),
            public_data_writes=(),
            private_logs=self._private_logs(number),
            public_logs=self._public_logs(number),
            contract_class_logs=(),
        )
        return L2Block(AppendOnlyTreeSnapshot(archive, number + 1), header, Body((effect,)), number, 0)

    def _private_logs(self, number: int) -> tuple[PrivateLog, ...]:
        logs = []
        for index in range(PRIVATE_LOGS_PER_BLOCK):
            if index == 0 and number % 100 == 0:
                tag = BUSY_TAG
            else:
                chosen = self._choose(self.private_tags)
                self.private_tags = max(self.private_tags, chosen + 1)
                tag = private_tag(chosen)
            logs.append(PrivateLog((tag, *self._fields(FIELDS_PER_LOG - 1), *_ZEROS), FIELDS_PER_LOG))
        return tuple(logs)

    def _public_logs(self, number: int) -> tuple[PublicLog, ...]:
        logs = []
        for index in range(PUBLIC_LOGS_PER_BLOCK):
            if index == 0 and number % max(1, self.blocks // RARE_LOGS) == 0:
                emitter, tag = RARE_CONTRACT, BUSY_TAG
            else:
                chosen = self._choose(self.public_tags)
                self.public_tags = max(self.public_tags, chosen + 1)
                emitter, tag = contract(chosen), public_tag(chosen)
            logs.append(PublicLog(emitter, (tag, *self._fields(FIELDS_PER_LOG - 1))))
        return tuple(logs)

    def _choose(self, known: int) -> int:
        """The number of a tag: the next new one, or one that was there before."""
        if known == 0 or self._random.random() < NEW_TAGS_PER_LOG:
            return known
        return int(known * self._random.random() ** SKEW)

    def _fields(self, count: int) -> tuple[bytes, ...]:
        data = self._random.randbytes(31 * count)
        return tuple([b"\0" + data[start : start + 31] for start in range(0, 31 * count, 31)])
