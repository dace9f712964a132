"""An L1 with two rollups of one registry, on one socket: the registry names either as the canonical one."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import Any

from tests.sources.l1.publishing import PublishingL1
from tests.sources.l1.scripted_l1 import Block

Json = dict[str, Any]


class L1OfTwoRollups(PublishingL1):
    """The first rollup; ``second``, on the same blocks, is served here too."""

    second: SecondRollup | None = None

    def mine(self, count: int = 1, **changes: Any) -> Block:
        with self.lock:
            for _ in range(count):
                block = super().mine(1, **changes)
                changes = {}
                if self.second is not None:
                    self.second.append(block)
            return self.head

    def switch(self, *, to_second: bool) -> None:
        """The registry names this rollup from now on, in a later epoch."""
        with self.lock:
            self.canonical = self.second.rollup if to_second and self.second is not None else None
            epoch = int(self.constants["epochDuration"]) * int(self.constants["slotDuration"])
            self.mine(timestamp=self.head.timestamp + epoch)

    def _of(self, contract: str) -> PublishingL1:
        if self.second is None or contract == self.addresses.registry:
            return self
        return self.second if contract in asdict(self.second.addresses).values() else self

    def _call_one(self, block: Block, to: str, data: bytes) -> str:
        of = self._of(to)
        return super()._call_one(block, to, data) if of is self else of._call_one(of.blocks[block.number], to, data)

    def _get_storage(self, contract: str, place: str, tag: str) -> str:
        of = self._of(contract)
        return super()._get_storage(contract, place, tag) if of is self else of._get_storage(contract, place, tag)

    def _get_logs(self, query: Json) -> list[Json]:
        of = self._of(query["address"])
        return super()._get_logs(query) if of is self else of._get_logs(query)

    def _get_transaction(self, text: str) -> Json | None:
        found = super()._get_transaction(text)
        return found if found is not None or self.second is None else self.second._get_transaction(text)

    def _rollup_of_version(self, block: Block, version: int) -> list[str]:
        if self.second is not None and version == self.second.version:
            return [self.second.addresses.rollup]
        return super()._rollup_of_version(block, version)


class SecondRollup(PublishingL1):
    """A rollup on the blocks of another one's L1, which serves it."""

    _first: L1OfTwoRollups | None = None

    def __init__(self, first: L1OfTwoRollups, node_info: Json, constants: Json) -> None:
        named = node_info["l1ContractAddresses"]
        others = {name: "0x" + hashlib.sha256(address.encode()).hexdigest()[:40] for name, address in named.items()}
        addresses = {**others, "registryAddress": first.addresses.registry}
        version = first.version + 1
        super().__init__({**node_info, "rollupVersion": version, "l1ContractAddresses": addresses}, constants)
        beginning, self.blocks = self.head, []
        for block in first.blocks:
            self.append(block, beginning)
        self.beacon = first.beacon
        self._first, first.second = first, self

    def append(self, block: Block, before: Block | None = None) -> None:
        """The state stays as it was in the block of L1 before this one."""
        now = {name: getattr(block, name) for name in ("number", "hash", "parent_hash", "timestamp")}
        self.blocks.append(replace(before or self.head, logs=(), proposals=(), **now))

    def mine(self, count: int = 1, **changes: Any) -> Block:
        if self._first is None:
            return super().mine(count, **changes)
        with self._first.lock:
            for _ in range(count):
                self._first.mine()
                self.blocks[-1] = replace(self.head, **changes)
                changes = {}
            return self.head
