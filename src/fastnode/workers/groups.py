"""Questions of workers that cost less together: transactions, of which one write takes as many as wait.

The threads that read what workers say put questions here, and one thread answers them.  While it waits for the disk
others come, so that the more there are, the more go together, and no thread is woken up for each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from fastnode.errors import FastnodeError
from fastnode.jsonrpc.refusals import answer_to
from fastnode.log import log_facts
from fastnode.workers.calls import failure_of
from fastnode.workers.feed import Follower

__all__ = ["Asked", "Group", "Outcome", "Together", "outcome_of"]

logger = logging.getLogger("fastnode.workers")

#: At a time; of transactions that is some megabytes.
_GROUP_MAX: Final = 32

#: (True, result) or (False, what the worker raises).
Outcome = tuple[bool, Any]


class Together(NamedTuple):
    """Functions that answer the questions of one name.

    ``answer`` gets the arguments of each and gives for each a result, or the error that is its answer; what it raises
    is the answer to all.  ``then``, which may block, is called before a result is given, with that and the arguments;
    None where nothing is to be done.
    """

    name: str
    answer: Callable[[Sequence[tuple[Any, ...]]], Sequence[Any]]
    then: Callable[[Any, tuple[Any, ...]], Callable[[], None] | None]


class Asked(NamedTuple):
    follower: Follower
    question: int
    arguments: tuple[Any, ...]


class Group:
    """One thread.  ``reply`` sends outcomes to a worker; ``in_thread`` runs what blocks elsewhere."""

    def __init__(
        self,
        together: Together,
        reply: Callable[[Follower, list[tuple[int, Outcome]]], None],
        in_thread: Callable[..., bool],
    ) -> None:
        self._together = together
        self._reply = reply
        self._in_thread = in_thread
        self._waiting: SimpleQueue[Asked | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"fastnode-worker-{together.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, asked: Asked) -> None:
        self._waiting.put(asked)

    def close(self) -> None:
        """Stop the thread; waiting questions are answered before."""
        self._waiting.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            group = [first]
            is_last = False
            while len(group) < _GROUP_MAX and not is_last:
                try:
                    other = self._waiting.get_nowait()
                except Empty:
                    break
                if other is None:
                    is_last = True
                else:
                    group.append(other)
            self._answer(group)
            if is_last:
                return

    def _answer(self, group: list[Asked]) -> None:
        is_answer, results = outcome_of(self._together.name, self._together.answer, [each.arguments for each in group])
        if not is_answer:
            results = [(False, results)] * len(group)
        else:
            results = [self._finish(asked, result) for asked, result in zip(group, results, strict=True)]
        replies: dict[Follower, list[tuple[int, Outcome]]] = {}
        for asked, outcome in zip(group, results, strict=True):
            if outcome is not None:
                replies.setdefault(asked.follower, []).append((asked.question, outcome))
        for follower, outcomes in replies.items():
            self._reply(follower, outcomes)

    def _finish(self, asked: Asked, result: Any) -> Outcome | None:
        """None: it is given later."""
        if isinstance(result, FastnodeError):
            return False, _failure(result)
        is_known, then = outcome_of(self._together.name, self._together.then, result, asked.arguments)
        if not is_known:
            return False, then
        if then is None:
            return True, result
        self._in_thread(self._give_later, asked, result, then)
        return None

    def _give_later(self, asked: Asked, result: Any, then: Callable[[], None]) -> None:
        is_done, failure = outcome_of(self._together.name, then)
        self._reply(asked.follower, [(asked.question, (True, result) if is_done else (False, failure))])


def _failure(error: FastnodeError) -> Any:
    return failure_of(error, answer_to(error))


def outcome_of(name: str, function: Callable[..., Any], *arguments: Any) -> Outcome:
    """Call ``function``; returns what it returns, or what it raises as it is sent."""
    try:
        return True, function(*arguments)
    except FastnodeError as error:
        return False, _failure(error)
    except Exception:
        logger.exception("a question of a worker failed", extra=log_facts(question=name))
        return False, ("internal", name, None, None)
