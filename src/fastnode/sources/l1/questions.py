"""The questions of a pass over L1, in one table: those without which there are no new checkpoints, and all others.

    primary    not answered: the pass ends, and another node of L1 is asked
    optional   not answered: the other nodes are asked this one question; if none answers, what depends on it stays as
               it was, /status says so, and it is asked again after a growing pause

Providers keep the state of some blocks only, leave out methods, or limit what a call may cost, so that any question may
be refused by a node that answers all the others.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from fastnode.errors import DecodeError, FastnodeError, UpstreamError
from fastnode.log import log_facts
from fastnode.outgoing.health import EndpointHealth, Patience
from fastnode.sources.l1.endpoints import L1Endpoint

__all__ = ["OptionalQuestions", "Question"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Pauses before an optional question is asked again.
PATIENCE: Final = Patience(unavailable_s=5.0, unavailable_max_s=600.0)


class Question(enum.Enum):
    """Name, whether it is primary, and what depends on it; of an optional one what happens while it is not answered."""

    HEAD = "head", True, "the newest block and the tips of the rollup at it"
    MESSAGES = "messages", True, "the messages that checkpoints insert, from the logs of the Inbox"
    PROPOSALS = "proposals", True, "the events and transactions of new checkpoints"
    ATTESTATIONS = "attestations", True, "the committee that must have signed a checkpoint"
    FINALITY = "finality", False, "the finalized tip does not advance"
    FEES = "fees", False, "fees are those of an earlier block"
    COMMITTEES = "committees", False, "proposers and attestations of new epochs are not known"
    SLASHER = "slasher", False, "rounds of the slasher are not known"
    COMMITTEE_SIZE = "committee size", False, "the size of committees is the last one that was read"
    CANONICAL = "canonical rollup", False, "whether the rollup is the canonical one is not known"

    def __init__(self, title: str, is_primary: bool, text: str) -> None:
        self.title, self.is_primary, self.text = title, is_primary, text


class OptionalQuestions:
    """``ask`` from one thread; the rest from any."""

    def __init__(self) -> None:
        self._health = {question: EndpointHealth(PATIENCE) for question in Question if not question.is_primary}

    def ask(
        self, question: Question, endpoint: L1Endpoint, others: Iterable[L1Endpoint], work: Callable[[L1Endpoint], T]
    ) -> T | None:
        """The result of ``work`` with the endpoint, or with the first of the others that answers; None if none does, or
        while the question rests."""
        health = self._health[question]
        if health.is_resting:
            return None
        reasons = []
        for each in (endpoint, *others):
            try:
                answer = work(each)
            except (UpstreamError, DecodeError) as error:
                reasons.append(f"{each.name}: {error}")
            except FastnodeError:
                raise
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                reasons.append(f"{each.name}: {each.on_nonsense(error)}")
            else:
                self.note_answer(question)
                return answer
        reason = "; ".join(reasons)
        if health.on_unavailable(reason):
            shown = log_facts(query=question.title, effect=question.text, reason=reason)
            logger.warning("L1 does not answer an optional query", extra=shown)
        return None

    def note_answer(self, question: Question) -> None:
        """It was answered together with others, or nothing depends on it any more."""
        health = self._health[question]
        has_failed = bool(health.reason)
        health.on_identified()
        if has_failed:
            logger.info("L1 answers an optional query again", extra=log_facts(query=question.title))

    def troubles(self) -> dict[str, str | None]:
        """Lines of /status: effect and reason of each optional question that is not answered, None for the others."""
        return {
            f"l1 {question.title}": f"{question.text}: {health.reason}" if health.reason else None
            for question, health in self._health.items()
        }

    def describe(self) -> list[dict[str, Any]]:
        """For status reports, the whole table."""
        return [
            {
                "query": question.title,
                "primary": question.is_primary,
                "reason": None if question.is_primary else self._health[question].reason or None,
            }
            for question in Question
        ]
