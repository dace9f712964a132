"""Methods that only a full node can answer: asked of the followed one, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from fastnode.errors import InvalidParams, Refused
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.values.arrays import ArrayOf
from fastnode.values.numbers import Integer
from fastnode.values.texts import ETH_ADDRESS

if TYPE_CHECKING:
    from fastnode.sentinel.sentinel import Sentinel

__all__ = ["Questions", "methods"]

#: Statistics change once per slot.
STATISTICS_AGE_MAX_S: Final = 5.0
#: A network record changes with the node's address, which hardly ever happens.
RECORD_AGE_MAX_S: Final = 60.0
#: Validators of one call.
VALIDATORS_MAX: Final = 100
#: The statistics of a node that does not watch validators.
_NO_STATISTICS: Final = b'{"stats":{},"slotWindow":0}'

_SLOT: Final = Integer(name="slot", minimum=0, accepts_text=True)


class Questions(Protocol):
    """Passes calls on to the followed node; RpcError without an answer."""

    def ask_cached(self, method: str, parameters: Sequence[Any], max_age_s: float) -> Any: ...


class _UpstreamMethods:
    def __init__(
        self, questions: Questions | None, sentinel: Sentinel | None, own_record: Callable[[], str | None] | None
    ) -> None:
        self._questions = questions
        self._sentinel = sentinel
        self._own_record = own_record

    def encoded_enr(self, context: Context) -> bytes | None:
        """This node's own on the peer-to-peer network.  Else that of the followed one, as it is now or as it was when
        the chain was learned."""
        if self._own_record is not None:
            record = self._own_record()
            return None if record is None else orjson.dumps(record)
        enr = context.view.chain.chain.node_info.get("enr")
        if self._questions is not None:
            with suppress(Refused):  # no upstream answers: the stored value is used
                enr = self._questions.ask_cached("node_getEncodedEnr", [], RECORD_AGE_MAX_S)
        return orjson.dumps(enr) if isinstance(enr, str) else None

    def validators_stats(self, context: Context) -> bytes:
        if self._sentinel is not None:
            stats = self._sentinel.validators_stats(context.view.chain)
        elif self._questions is None:
            return _NO_STATISTICS
        else:
            stats = self._questions.ask_cached("node_getValidatorsStats", [], STATISTICS_AGE_MAX_S)
        if context.is_five_or_later:
            told = {address: _stats_in_five(validator) for address, validator in stats["stats"].items()}
            stats = stats | {"stats": told}
        return orjson.dumps(stats)

    def validator_stats(
        self, context: Context, address: str, from_slot: int | None = None, to_slot: int | None = None
    ) -> bytes | None:
        if self._sentinel is not None:
            stats = self._sentinel.validator_stats(context.view.chain, bytes.fromhex(address[2:]), from_slot, to_slot)
        elif self._questions is None:
            return None
        else:
            parameters = [address, from_slot, to_slot]
            stats = self._questions.ask_cached("node_getValidatorStats", parameters, STATISTICS_AGE_MAX_S)
        if stats is None:
            return None
        return orjson.dumps(_single_stats_in_five(stats) if context.is_five_or_later else stats)

    def validator_stats_batch(
        self, context: Context, addresses: Sequence[str], from_slot: int | None = None, to_slot: int | None = None
    ) -> bytes:
        """Statistics of each validator in the order asked; null for one without any."""
        first, last = 0 if from_slot is None else from_slot, to_slot
        if last is not None and first > last:
            raise InvalidParams(f"Invalid params: fromSlot (parameter 2) is {first}, above toSlot, which is {last}")
        if self._sentinel is not None:
            chain = context.view.chain
            window = self._sentinel.history_epochs * chain.chain.epoch_duration
            if from_slot is not None and last is not None and last - first > window:
                raise InvalidParams(
                    f"Invalid params: toSlot (parameter 3) must be at most {window} slots above fromSlot, "
                    f"got {last - first}"
                )
            keys = [bytes.fromhex(address[2:]) for address in addresses]
            found: Sequence[Any] = self._sentinel.stats_of_validators(chain, keys, from_slot, to_slot)
        elif self._questions is None:
            found = [None] * len(addresses)
        else:
            parameters = [list(addresses), from_slot, to_slot]
            found = self._questions.ask_cached("node_getValidatorStatsBatch", parameters, STATISTICS_AGE_MAX_S)
        return orjson.dumps([None if stats is None else _single_stats_in_five(stats) for stats in found])


def _stats_in_five(stats: Mapping[str, Any]) -> dict[str, Any]:
    """ValidatorStats of 5.x, which says of a checkpoint that was proposed only whether its blocks were executed."""
    history = [
        item | {"status": "checkpoint-unvalidated"} if item["status"] == "checkpoint-proposed" else item
        for item in stats["history"]
    ]
    return {**stats, "history": history}


def _single_stats_in_five(stats: Mapping[str, Any]) -> dict[str, Any]:
    """SingleValidatorStats of 5.x, which calls the performance by another name."""
    told = {name: value for name, value in stats.items() if name != "allTimeProvenPerformance"}
    return told | {
        "validator": _stats_in_five(stats["validator"]),
        "allTimeEpochPerformance": stats.get("allTimeProvenPerformance", []),
    }


def methods(
    questions: Questions | None,
    sentinel: Sentinel | None = None,
    own_record: Callable[[], str | None] | None = None,
) -> list[Method]:
    """``sentinel`` answers if there is one, else the followed node; without both the answers are those of a node that
    does not watch validators."""
    handlers = _UpstreamMethods(questions, sentinel, own_record)
    of_validator = (
        Parameter("validatorAddress", ETH_ADDRESS),
        Parameter("fromSlot", _SLOT, optional=True),
        Parameter("toSlot", _SLOT, optional=True),
    )
    return [
        Method(
            name="node_getEncodedEnr",
            summary="The record of this node, or of the followed one, on the peer-to-peer network; absent without one.",
            handler=handlers.encoded_enr,
            in_thread=True,
            waits=True,
            **common("string", may_be_absent=True),
        ),
        Method(
            name="node_getValidatorsStats",
            summary="What each validator did in the last slots.",
            handler=handlers.validators_stats,
            in_thread=True,
            waits=True,
            **common("ValidatorsStats"),
        ),
        Method(
            name="node_getValidatorStats",
            summary="What one validator did.",
            handler=handlers.validator_stats,
            in_thread=True,
            waits=True,
            five=Signature("EpochValidatorStats", of_validator, may_be_absent=True),
            **common("SingleValidatorStats", *of_validator, may_be_absent=True),
        ),
        Method(
            name="node_getValidatorStatsBatch",
            summary="What each of several validators did, over one range of slots; null for one without statistics.",
            handler=handlers.validator_stats_batch,
            in_thread=True,
            waits=True,
            six=Signature(
                "(EpochValidatorStats|null)[]",
                (Parameter("validatorAddresses", ArrayOf(ETH_ADDRESS, VALIDATORS_MAX)), *of_validator[1:]),
            ),
        ),
    ]
