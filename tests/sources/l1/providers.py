"""Providers of L1 as operators have them: each has limits, forms of its own, and times at which it is away.

Rules       what one provider of execution data grants and how it refuses; drawn from a source of chance
Provider    shows a scripted L1 by its rules: a whole HTTP answer for each request, None if it never answers
BeaconRules, BeaconProvider     the same for a consensus client

The clock is the caller's, so that they serve real sockets and simulated ones alike.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sources.l1.publishing import PublishingL1
from tests.sources.l1.scripted_l1 import Block
from tests.sources.scripted_upstream import RejectionError

Json = dict[str, Any]


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Rules:
    batch: int = 1_000
    calls_per_second: float = 1_000_000.0
    log_blocks: int = 1_000_000
    #: How it refuses too many calls, too large batches and ranges.
    rate_form: str = "status"
    batch_form: str = "error"
    log_form: str = "named"
    #: Forms of its answers.
    ids: str = "as sent"
    has_null_error: bool = False
    status: int = 200
    has_mark: bool = False
    #: Blocks that it has not seen yet.
    lag: int = 0
    #: Newest blocks of which it keeps the state; 0: all.
    state_blocks: int = 0
    #: "": it answers; else how it is away for good.
    dead: str = ""

    @classmethod
    def drawn(cls, chance: random.Random, *, may_be_dead: bool) -> Rules:
        return cls(
            batch=chance.choice([1, 3, 5, 10, 20, 100, 1_000]),
            calls_per_second=chance.choice([5, 10, 15, 25, 50, 1_000_000]),
            log_blocks=chance.choice([5, 10, 50, 500, 1_000_000]),
            rate_form=chance.choice(["status", "retry after", "whole", "each", "rest", "words"]),
            batch_form=chance.choice(["error", "named", "status", "text"]),
            log_form=chance.choice(["named", "plain", "exceeded"]),
            ids=chance.choice(["as sent", "text", "float"]),
            has_null_error=chance.random() < 0.3,
            status=chance.choice([200, 200, 201]),
            has_mark=chance.random() < 0.2,
            lag=chance.choice([0, 0, 1, 2]),
            state_blocks=chance.choice([0, 0, 8, 128]),
            dead=chance.choice(["", "", "silent", "status", "key"]) if may_be_dead else "",
        )


class Provider:
    """``clock`` gives seconds; those in which calls are counted begin with whole ones."""

    def __init__(self, l1: PublishingL1, node_info: Json, rules: Rules, clock: Callable[[], float]) -> None:
        self.l1, self.rules, self._clock = l1, rules, clock
        self._answers = PublishingL1(node_info, l1.constants)
        self._answers.finality, self._answers.finality_step = l1.finality, l1.finality_step
        self._answers.tamper = self._check_state
        self._sent: deque[tuple[float, int]] = deque()
        self._shown: list[Block] = []
        #: Calls that came, and those that were refused because of a limit; since :meth:`count_anew`.
        self.calls = self.refused = 0
        self.calls_ever = 0

    def count_anew(self) -> None:
        self.calls = self.refused = 0

    def answer(self, body: bytes) -> Response | None:
        rules = self.rules
        request = json.loads(body)
        calls = request if isinstance(request, list) else [request]
        self.calls += len(calls)
        self.calls_ever += len(calls)
        if rules.dead:
            return self._dead()
        if len(calls) > rules.batch:
            self.refused += len(calls)
            return self._too_large(len(calls))
        granted = self._granted(len(calls))
        if granted < len(calls):
            self.refused += len(calls) - (granted if rules.rate_form == "rest" else 0)
            return self._too_fast(calls, granted)
        return self._given([self._answered(call) for call in calls], isinstance(request, list))

    def _granted(self, count: int) -> int:
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - 1.0:
            self._sent.popleft()
        left = int(self.rules.calls_per_second) - sum(number for _, number in self._sent)
        granted = max(0, min(count, left))
        if granted == count or self.rules.rate_form == "rest":
            self._sent.append((now, granted))
        return granted

    def _answered(self, call: Json) -> Json:
        answers, rules = self._answers, self.rules
        blocks = self.l1.blocks
        self._shown = blocks[: max(4, len(blocks) - rules.lag)]
        answers.blocks, answers.committee_size = self._shown, self.l1.committee_size
        answers.circuits = self.l1.circuits
        if call["method"] == "eth_getLogs":
            query = call["params"][0]
            span = int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1
            if span > rules.log_blocks:
                self.refused += 1
                return {"jsonrpc": "2.0", "id": call["id"], "error": self._too_wide()}
        return answers._answer_one(call)

    def _check_state(self, method: str, parameters: list[Any], result: Any) -> Any:
        if method == "eth_call" and self.rules.state_blocks:
            block = self._answers._block(parameters[1])
            if block is not None and block.number <= self._shown[-1].number - self.rules.state_blocks:
                raise RejectionError(-32000, "missing trie node 5f1c (path ) state is not available")
        return result

    # ---- forms -------------------------------------------------------------------------------

    def _given(self, answers: list[Json], is_batch: bool) -> Response:
        rules = self.rules
        for answer in answers:
            number = answer["id"]
            answer["id"] = {"as sent": number, "text": str(number), "float": float(number)}[rules.ids]
            if rules.has_null_error:
                answer.setdefault("error", None)
        body = json.dumps(answers if is_batch else answers[0]).encode()
        return Response(rules.status, (b"\xef\xbb\xbf" if rules.has_mark else b"") + body)

    def _too_large(self, count: int) -> Response:
        form, limit = self.rules.batch_form, self.rules.batch
        if form == "text":
            return Response(400, b"batch too large")
        if form == "status":
            return Response(413, b"<html>413 Request Entity Too Large</html>")
        text = f"batch of {count} calls, the limit is {limit}" if form == "named" else "batch too large"
        return _error(200, -32600, text)

    def _too_fast(self, calls: list[Json], granted: int) -> Response:
        form = self.rules.rate_form
        if form == "status":
            return Response(429, b"Too Many Requests")
        if form == "retry after":
            return Response(429, b"{}", {"Retry-After": "1"})
        if form == "whole":
            return _error(200, -32005, "limit exceeded")
        if form == "words":
            return _error(403, -32000, "your app has exceeded its compute units per second capacity")
        refusal = {"code": 429, "message": "slow down"} if form == "each" else {"code": -32029, "message": "wait"}
        kept = granted if form == "rest" else 0
        answers = [self._answered(call) for call in calls[:kept]]
        answers += [{"jsonrpc": "2.0", "id": call["id"], "error": refusal} for call in calls[kept:]]
        return self._given(answers, len(calls) > 1)

    def _too_wide(self) -> Json:
        form, limit = self.rules.log_form, self.rules.log_blocks
        if form == "exceeded":
            return {"code": -32005, "message": "limit exceeded"}
        text = f"block range is too large, the limit is {limit}" if form == "named" else "block range is too large"
        return {"code": -32602, "message": text}

    def _dead(self) -> Response | None:
        if self.rules.dead == "silent":
            return None
        if self.rules.dead == "key":
            return _error(401, -32001, "invalid project id")
        return Response(503, b"no healthy upstream")


def _error(status: int, code: int, text: str) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
    return Response(status, json.dumps(body).encode())


# ---- consensus clients -------------------------------------------------------------------------


@dataclass
class BeaconRules:
    #: Paths that it does not offer, with the status of a refusal.
    refusals: dict[str, int] = field(default_factory=dict)
    takes_repeated: bool = True
    takes_joined: bool = False
    requests_per_second: float = 1_000_000.0
    status: int = 200
    dead: str = ""

    @classmethod
    def drawn(cls, chance: random.Random, *, may_be_dead: bool) -> BeaconRules:
        """With at least one way to the blobs."""
        status = chance.choice([400, 403, 404, 405, 501])
        refusals = chance.choice([{}, {"blobs": status}, {"blob_sidecars": status}, {"headers": status}])
        return cls(
            refusals=dict(refusals),
            takes_repeated=chance.random() < 0.6,
            takes_joined=chance.random() < 0.5,
            requests_per_second=chance.choice([5, 20, 1_000_000]),
            status=chance.choice([200, 200, 201]),
            dead=chance.choice(["", "", "silent", "status", "key"]) if may_be_dead else "",
        )


class BeaconProvider:
    def __init__(self, l1: PublishingL1, rules: BeaconRules, clock: Callable[[], float]) -> None:
        self._beacon, self.rules, self._clock = l1.beacon, rules, clock
        self._sent: deque[float] = deque()
        self.calls = self.refused = 0

    def count_anew(self) -> None:
        self.calls = self.refused = 0

    def answer(self, path: str) -> Response | None:
        rules = self.rules
        self.calls += 1
        if rules.dead == "silent":
            return None
        if rules.dead:
            return Response(401 if rules.dead == "key" else 503, b'{"code": 1, "message": "away"}')
        now = self._clock()
        while self._sent and self._sent[0] <= now - 1.0:
            self._sent.popleft()
        if len(self._sent) >= rules.requests_per_second:
            self.refused += 1
            return Response(429, b"{}")
        self._sent.append(now)
        beacon = self._beacon
        with beacon.lock:
            before = beacon.refusals, beacon.takes_repeated, beacon.takes_joined
            beacon.refusals, beacon.takes_repeated = rules.refusals, rules.takes_repeated
            beacon.takes_joined = rules.takes_joined
            try:
                status, answer = beacon.answer(path)
            finally:
                beacon.refusals, beacon.takes_repeated, beacon.takes_joined = before
        return Response(rules.status if status == 200 else status, json.dumps(answer).encode())
