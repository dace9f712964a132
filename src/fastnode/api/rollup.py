"""The methods of 5.x about the rollup and how far L1 has been read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.jsonrpc.methods import Context, Method, Signature

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["methods"]

#: Members of L1RollupConstants: numbers of any size are texts.
_BIG: Final = ("l1StartBlock", "l1GenesisTime")
_SMALL: Final = (
    "slotDuration",
    "epochDuration",
    "ethereumSlotDuration",
    "proofSubmissionEpochs",
    "targetCommitteeSize",
    "rollupManaLimit",
)
#: Values of those that a chain may have been learned without: the length of a slot of L1, and no committee.
_USUAL: Final = {"ethereumSlotDuration": 12, "targetCommitteeSize": 0}


def _l1_constants(context: Context) -> bytes:
    known = context.view.chain.chain.l1_constants
    big = {name: str(known.get(name, 0)) for name in _BIG}
    return orjson.dumps(big | {name: int(known.get(name, _USUAL.get(name, 0))) for name in _SMALL})


class _Synced:
    """Progress on L1.  ``sync_status`` describes how the chain is followed; None when it is not."""

    def __init__(self, sync_status: Callable[[], Mapping[str, Any] | None]) -> None:
        self._sync_status = sync_status

    def timestamp(self, context: Context) -> bytes | None:
        found = self._timestamp(context.view.chain)
        return None if found is None else b'"%d"' % found

    def slot(self, context: Context) -> bytes | None:
        found = self._slot(context.view.chain)
        return None if found is None else b"%d" % found

    def epoch(self, context: Context) -> bytes | None:
        """The last epoch all of whose slots are synced."""
        chain = context.view.chain
        slot = self._slot(chain)
        epoch = -1 if slot is None else (slot + 1) // chain.chain.epoch_duration - 1
        return None if epoch < 0 else b"%d" % epoch

    def _slot(self, chain: ChainView) -> int | None:
        """The last slot that is over by the time of L1's next block, or that has a checkpoint."""
        constants = chain.chain.l1_constants
        checkpoint = chain.tips.checkpointed.checkpoint.number
        last = chain.tips.checkpointed.block.number
        block = chain.block_info(last) if checkpoint else None
        slots = [] if block is None else [block.slot_number]
        timestamp = self._timestamp(chain)
        if timestamp is not None:
            next_block = timestamp + int(constants.get("ethereumSlotDuration", _USUAL["ethereumSlotDuration"]))
            current = (next_block - int(constants["l1GenesisTime"])) // int(constants["slotDuration"])
            if current > 0:
                slots.append(current - 1)
        return max(slots, default=None)

    def _timestamp(self, chain: ChainView) -> int | None:
        """That of L1's newest block if all that it says is stored, else that of the newest checkpoint that is."""
        checkpoint = chain.tips.checkpointed.checkpoint.number
        l1 = (self._sync_status() or {}).get("l1")
        if l1 is not None and l1.get("blockTime") and (l1.get("pendingCheckpoint") or 0) <= checkpoint:
            return int(l1["blockTime"])
        stored = chain.checkpoint(checkpoint)
        return None if stored is None else int(orjson.loads(stored.l1_json)["timestamp"])


def methods(sync_status: Callable[[], Mapping[str, Any] | None]) -> list[Method]:
    synced = _Synced(sync_status)
    return [
        Method(
            name="node_getL1Constants",
            summary="Durations and limits of the rollup.",
            handler=_l1_constants,
            is_cached=True,
            five=Signature("L1RollupConstants"),
        ),
        Method(
            name="node_getSyncedL2SlotNumber",
            summary="The last slot of which all of L1 has been read.",
            handler=synced.slot,
            five=Signature("number", may_be_absent=True),
        ),
        Method(
            name="node_getSyncedL2EpochNumber",
            summary="The last epoch of which all of L1 has been read.",
            handler=synced.epoch,
            five=Signature("number", may_be_absent=True),
        ),
        Method(
            name="node_getSyncedL1Timestamp",
            summary="Time of L1's newest block that has been read, in seconds.",
            handler=synced.timestamp,
            five=Signature("bigint", may_be_absent=True),
        ),
    ]
