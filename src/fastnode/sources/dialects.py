"""Questions to nodes of a release whose methods are others: asked and read everywhere else as those of 4.x.

:func:`phrased` gives the calls that such a node knows, and how its answers become those of 4.x.  What is the same in
both needs no phrase.  What makes no sense is left as it is: whoever reads an answer refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastnode.outgoing.client import RpcCall

__all__ = ["phrased"]

_Read = Callable[[Any], Any]
#: Members of a checkpoint that L1 has taken, in 4.x.
_OF_CHECKPOINT: Final = ("archive", "header", "blocks", "number", "feeAssetPriceModifier")


class _Phrase(NamedTuple):
    """Name of the method there, parameters behind those of 4.x, and how to read what it gives."""

    name: str
    options: Mapping[str, bool] | None = None
    #: Parameters of 4.x, those that may be missing among them, if options stand behind them.
    places: int = 0
    read: _Read = lambda answer: answer

    def of(self, parameters: Sequence[Any]) -> RpcCall:
        if self.options is None:
            return self.name, parameters
        missing = [None] * (self.places - len(parameters))
        return self.name, [*parameters, *missing, self.options]


def _header(answer: Any) -> Any:
    return answer.get("header") if isinstance(answer, dict) else answer


def _published(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    members = {name: item[name] for name in _OF_CHECKPOINT if name in item}
    return {"checkpoint": members, "l1": item.get("l1"), "attestations": item.get("attestations")}


def _checkpoints(answer: Any) -> Any:
    return list(map(_published, answer)) if isinstance(answer, list) else answer


def _validator(answer: Any) -> Any:
    if not isinstance(answer, dict) or "allTimeEpochPerformance" not in answer:
        return answer
    return answer | {"allTimeProvenPerformance": answer["allTimeEpochPerformance"]}


def _validators(answer: Any) -> Any:
    return list(map(_validator, answer)) if isinstance(answer, list) else answer


_WITH_PROOF: Final = {"includeProof": True}
_WHOLE_CHECKPOINT: Final = dict.fromkeys(
    ("includeBlocks", "includeTransactions", "includeL1PublishInfo", "includeAttestations"), True
)
_FROM_FIVE_ON: Final[Mapping[str, _Phrase]] = {
    "node_getL2Tips": _Phrase("node_getChainTips"),
    "node_getBlockHeader": _Phrase("node_getBlockData", read=_header),
    "node_getBlocks": _Phrase("node_getBlocks", {"includeTransactions": True}, 2),
    "node_getCheckpoints": _Phrase("node_getCheckpoints", _WHOLE_CHECKPOINT, 2, _checkpoints),
    "node_getTxByHash": _Phrase("node_getTxByHash", _WITH_PROOF, 1),
    "node_getPendingTxs": _Phrase("node_getPendingTxs", _WITH_PROOF, 2),
    "node_getValidatorStats": _Phrase("node_getValidatorStats", read=_validator),
    "node_getValidatorStatsBatch": _Phrase("node_getValidatorStatsBatch", read=_validators),
}
_PHRASES: Final[Mapping[str, Mapping[str, _Phrase]]] = {"5.x": _FROM_FIVE_ON, "6.x": _FROM_FIVE_ON}


def phrased(method_set: str, calls: Sequence[RpcCall]) -> tuple[list[RpcCall], list[_Read]]:
    """Calls as a node with these methods knows them, and how to read each answer."""
    known = _PHRASES.get(method_set, {})
    phrases = [(known.get(name) or _Phrase(name), parameters) for name, parameters in calls]
    return [phrase.of(parameters) for phrase, parameters in phrases], [phrase.read for phrase, _ in phrases]
