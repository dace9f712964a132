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
from fastnode.records import dataclass
from fastnode.sources.l1.endpoints import L1Endpoint

__all__ = ["OptionalQuestions", "Question"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Pauses before an optional question is asked again, in seconds.
PAUSE_FIRST_S: Final = 5.0
PAUSE_MAX_S: Final = 600.0


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
    CANONICAL = "canonical rollup", False, "whether the rollup is the canonical one is not known"

    def __init__(self, title: str, is_primary: bool, text: str) -> None:
        self.title, self.is_primary, self.text = title, is_primary, text


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    pause_s: float
    again_at: float


class OptionalQuestions:
    """``ask`` from one thread; the rest from any.  ``clock``: any that goes on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: Replaced as a whole.
        self._failures: dict[Question, _Failure] = {}

    def ask(
        self, question: Question, endpoint: L1Endpoint, others: Iterable[L1Endpoint], work: Callable[[L1Endpoint], T]
    ) -> T | None:
        """The result of ``work`` with the endpoint, or with the first of the others that answers; None if none does, or
        while the question rests."""
        assert not question.is_primary
        before = self._failures.get(question)
        if before is not None and self._clock() < before.again_at:
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
        self._on_failure(question, "; ".join(reasons))
        return None

    def note_answer(self, question: Question) -> None:
        """It was answered together with others, or nothing depends on it any more."""
        if question in self._failures:
            self._failures = {other: failure for other, failure in self._failures.items() if other is not question}
            logger.info("L1 answers an optional query again", extra=log_facts(query=question.title))

    def _on_failure(self, question: Question, reason: str) -> None:
        before = self._failures.get(question)
        pause = PAUSE_FIRST_S if before is None else min(2 * before.pause_s, PAUSE_MAX_S)
        self._failures = self._failures | {question: _Failure(reason, pause, self._clock() + pause)}
        if before is None:
            shown = log_facts(query=question.title, effect=question.text, reason=reason)
            logger.warning("L1 does not answer an optional query", extra=shown)

    def troubles(self) -> dict[str, str | None]:
        """Lines of /status: effect and reason of each optional question that is not answered, None for the others."""
        failures = self._failures
        return {
            f"l1 {question.title}": f"{question.text}: {failures[question].reason}" if question in failures else None
            for question in Question
            if not question.is_primary
        }

    def describe(self) -> list[dict[str, Any]]:
        """For status reports, the whole table."""
        failures = self._failures
        return [
            {
                "query": question.title,
                "primary": question.is_primary,
                "reason": failures[question].reason if question in failures else None,
            }
            for question in Question
        ]
