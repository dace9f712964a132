"""L1 of a world: the scripted rollup of other tests with times, reorgs, prunes, finality, and providers that differ.

The model itself (tests/sources/l1/scripted_l1.py, publishing.py) is the one that tests of following use on real
sockets.  Here it makes one block for each slot of 12 s, in which one thing happens, and is asked through providers:
each shows what it has seen of L1, which may be less than there is.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.scheduler import EPOCH
from tests.sources.l1.publishing import PublishingL1
from tests.sources.l1.scripted_l1 import Block

__all__ = ["L1", "L1_SLOT_S", "Beacon", "Provider"]

Json = dict[str, Any]
L1_SLOT_S: Final = 12
#: Blocks behind the newest that are final, in steps; deeper reorgs do not happen.
FINALITY: Final = 24
FINALITY_STEP: Final = 8


class L1(PublishingL1):
    """The true one.  ``deeds`` are done one a block."""

    def __init__(self, node_info: Json, constants: Json) -> None:
        super().__init__(node_info, constants)
        self.finality, self.finality_step = FINALITY, FINALITY_STEP
        self.slot = 0
        self.clock = lambda: EPOCH + self.slot * L1_SLOT_S
        self.deeds: deque[Callable[[], object]] = deque()
        self.final = 0
        #: Archive roots that any L1 had, by number of checkpoint.
        self.ever: dict[int, set[bytes]] = {}

    def tick(self, slot: int) -> None:
        """The block of a slot."""
        self.slot = slot
        before = self.head.number
        if self.deeds:
            self.deeds.popleft()()
        if self.head.number == before:
            self.mine()
        self.note()

    def note(self) -> None:
        """Remember what L1 has now."""
        for number, root in enumerate(self.head.archives):
            self.ever.setdefault(number, set()).add(root)
        self.final = max(self.final, (self.head.number - self.finality) // self.finality_step * self.finality_step)

    def is_prunable(self) -> bool:
        """True when the next block may take back what is not proven."""
        start = self.head.prunable_from
        return start is not None and self.clock() + L1_SLOT_S >= start and self.head.proven < self.head.pending

    @property
    def standing(self) -> int:
        """The newest checkpoint that nobody may take back at the next block."""
        return self.head.proven if self.is_prunable() else self.head.pending

    @property
    def depth_max(self) -> int:
        """Blocks that a reorg may take back."""
        return self.head.number - max(self.final, 2)


class Provider:
    """A node of L1: it may lag, limit, fail or lie."""

    def __init__(self, l1: L1, node_info: Json, constants: Json, chance: random.Random) -> None:
        self._l1 = l1
        self._answers = PublishingL1(node_info, constants)
        self._answers.finality, self._answers.finality_step = l1.finality, l1.finality_step
        self._answers.inbox_form = l1.inbox_form
        self._answers.tamper = self._tamper
        self._chance = chance
        #: Blocks that it has not seen yet.
        self.lag = 0
        #: It shows what it has, and hears of nothing new.
        self.stands = False
        self.fails = 0.0
        self.lies = 0.0
        self._shown: list[Block] = []

    def answer(self, _method: str, _path: str, body: bytes) -> tuple[int, bytes]:
        if self.fails and self._chance.random() < self.fails:
            return self._chance.choice([429, 500, 503]), b'{"error": "busy"}'
        if not self.stands or not self._shown:
            blocks = self._l1.blocks
            self._shown = blocks[: max(2, len(blocks) - self.lag)]
        self._answers.blocks = self._shown
        self._answers.committee_size = self._l1.committee_size
        return 200, self._answers.answer(body)

    def _tamper(self, method: str, parameters: list[Any], result: Any) -> Any:
        if method == "eth_getBlockByNumber" and parameters[0] == "finalized" and isinstance(result, dict):
            final = min(self._l1.final, self._shown[-1].number)
            result = self._answers._get_block(hex(final), False)
        if self.lies and self._chance.random() < self.lies:
            return self._false(result)
        return result

    def _false(self, result: Any) -> Any:
        """Another answer of the same form."""
        text = json.dumps(result)
        digits = [at for at, digit in enumerate(text) if digit in "0123456789abcdef"]
        if not digits:
            return None
        at = self._chance.choice(digits)
        changed = text[:at] + self._chance.choice("0123456789abcdef") + text[at + 1 :]
        try:
            return json.loads(changed)
        except json.JSONDecodeError:
            return None


class Beacon:
    """The consensus client: it has the blobs, but may hide some, give others, or be away."""

    def __init__(self, l1: L1, chance: random.Random) -> None:
        self._beacon = l1.beacon
        self._chance = chance
        self.fails = 0.0

    @property
    def hidden(self) -> set[bytes]:
        return self._beacon.hidden

    def spoil(self, is_spoilt: bool) -> None:
        self._beacon.tamper = _spoilt if is_spoilt else lambda blob: blob

    def answer(self, _method: str, path: str, _body: bytes) -> tuple[int, bytes]:
        if self.fails and self._chance.random() < self.fails:
            return 503, b"{}"
        status, answer = self._beacon.answer(path)
        return status, json.dumps(answer).encode()


def _spoilt(blob: bytes) -> bytes:
    return blob[:100] + bytes([blob[100] ^ 1]) + blob[101:]
