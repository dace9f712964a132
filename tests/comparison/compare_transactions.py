"""Transactions, pools, records, blobs and signed messages, read and judged here and by the published node's classes.

    scripts/compare-transactions --node FOLDER --cases 1000 --seed 1
    scripts/compare-transactions --node FOLDER --what binary,json ...      some of them
    scripts/compare-transactions --node FOLDER --replay differences.jsonl
    scripts/compare-transactions --node FOLDER --record FILE.xz            keep cases on which both agree, for
                                                                           test_recorded_transactions.py
    scripts/compare-transactions --node FOLDER --what bent --record-verdicts

Compared are for transactions (binary, json) whether they are read, hashes, the bytes that are written again, the
verdicts for clients, gossip, block building and proposals, and what the pool keeps; for pools the answer to each step,
who is pending, in order, and who is mined; for records (records, records-json) and blobs what is read; for messages and
attestations the verdict.  bent: the messages of tests/p2p/bent_messages.py.  What docs/compatibility.md explains is
counted apart.  The exit status is 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from tests.comparison.kept_hashes import KeptHashes
from tests.comparison.message_cases import attested_cases, message_cases
from tests.comparison.pool_sequences import PoolWalk, sequences
from tests.comparison.published_node import PublishedNode, folder_of
from tests.comparison.record_cases import blob_cases, record_cases, record_json_cases
from tests.comparison.transaction_cases import binary_cases, json_cases
from tests.comparison.transaction_differences import differences, explanation, pool_difference
from tests.comparison.transaction_outcomes import Answers, Json, world
from tests.comparison.transaction_recording import write_recording
from tests.p2p.bent_messages import cases as bent_cases
from tests.p2p.bent_messages import question_of, record

SCRIPT = Path(__file__).with_name("transactions.mjs")
AT_ONCE = 32
#: Seconds between two lines that say how far it is.
TOLD_S = 60
SHOWN_KINDS, SHOWN_CASES = 60, 2

KINDS: Final[Mapping[str, Callable[[int], Iterator[Json]]]] = {
    "binary": binary_cases,
    "json": json_cases,
    "blobs": blob_cases,
    "records": record_cases,
    "records-json": record_json_cases,
    "messages": message_cases,
    "attestations": attested_cases,
    "pools": sequences,
    "bent": lambda _: map(question_of, bent_cases()),
}


class Batch(NamedTuple):
    """Cases, what they come to here, and hashes that were computed for them."""

    cases: Sequence[Json]
    ours: Sequence[Json]
    hashes: Mapping[str, str]


class Comparison:
    """Cases put to both, and what became of them."""

    def __init__(self, node: PublishedNode, save: TextIO | None) -> None:
        self._node, self._save = node, save
        keys, contracts = (bytes.fromhex(node.hello[name][2:]) for name in ("vkTreeRoot", "protocolContractsHash"))
        self._answers = Answers((keys, contracts))
        self._hashes = KeptHashes()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.explained: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.agreed: list[tuple[Json, Json]] = []
        self.there: list[Json] = []

    def close(self) -> None:
        self._hashes.close()
        self._node.close()

    def prepare(self, cases: Sequence[Json]) -> Batch:
        """Answer here, before the published node is asked: what was hashed for that is told to it."""
        ours = list(map(self._answers, cases))
        return Batch(cases, ours, self._hashes.taken())

    def run(self, kind: str, batch: Batch, meanwhile: Callable[[], None] = lambda: None) -> None:
        """``meanwhile`` is called while the published node answers."""
        cases, ours = batch.cases, batch.ours
        self.there = self._node.ask_all([{**cases[0], "hashes": batch.hashes}, *cases[1:]], meanwhile)
        for case, here, there in zip(cases, ours, self.there, strict=True):
            read = "refused" if "refused" in here else here.get("verdict") or str((here.get("rpc") or ["read"])[0])
            self.outcomes[f"{kind}: {read}"] += 1
            found = differences(case, here, there)
            rows = {name: explanation(case, name, here, there) for name in found}
            unexplained = [name for name, row in rows.items() if row is None]
            if not found:
                self.agreed.append((case, here))
            elif unexplained:
                self._note(kind, case, unexplained[0], here, there)
            else:
                self.explained.update({str(row) for row in rows.values()})

    def run_pool(self, case: Json) -> None:
        """Up to the first step that differs and is not explained."""
        walk = PoolWalk(case)
        drops: dict[int, Json] = {}
        while (found := self._first_difference(walk, drops)) is not None:
            place, name, there = found
            reason = walk.explanation(place, there)
            if reason is None:
                steps = case["steps"][: place + 1]
                self._note("pools", {**case, "steps": steps}, name, walk.answers[place], there)
                return
            self.explained[reason] += 1
            if not walk.can_go_on(place, there):
                return
            extra = [tx_hash for tx_hash in there["pending"] if tx_hash not in walk.answers[place]["pending"]]
            drops[place] = {"op": "step", "do": "drop", "hashes": extra, "all": []}
        for step, ours in zip(case["steps"], walk.answers, strict=True):
            self.outcomes[f"pools: {step['do']} {' '.join(map(str, (ours['answer'] or [])[:2]))}"] += 1
        if not drops:
            self.agreed.append((case, {"answers": walk.answers}))

    def _first_difference(self, walk: PoolWalk, drops: Mapping[int, Json]) -> tuple[int, str, Json] | None:
        """The step, what differs, and what is said there; behind the steps of ``drops`` the pool there has less."""
        case, questions = walk.case, list[tuple[int | None, Json]]()
        for place, sent in enumerate(walk.sent):
            questions.append((place, sent))
            if place in drops:
                questions.append((None, drops[place]))
        asked = [{"op": "pool", "made": case["made"], "hashes": self._hashes.taken(), **case["options"]}]
        answers = self._node.ask_all([*asked, *(question for _, question in questions)])[1:]
        for (place, _), there in zip(questions, answers, strict=True):
            if place is None or place in drops:
                continue
            name = pool_difference(case["steps"][place], walk.answers[place], there)
            if name is not None:
                return place, name, there
        return None

    def leave_pools(self) -> None:
        """Each pool has a chain of its own; what comes next has the usual one."""
        self._node.ask({"op": "world", "made": world()})

    def _note(self, kind: str, case: Json, name: str, here: Json, there: Json) -> None:
        shown = [json.dumps(item.get(name, item.get("refused", item))) for item in (here, there)]
        key = re.sub(r"0x[0-9a-f]{8,}|\d{3,}", "#", f"{kind} {name}: here {shown[0][:150]} | there {shown[1][:150]}")
        self.kinds[key] += 1
        if self.kinds[key] > SHOWN_CASES or len(self.kinds) > SHOWN_KINDS:
            return
        print(f"DIFFERS {case.get('changes', '')} {key}", flush=True)
        if self._save is not None:
            self._save.write(json.dumps({"kind": kind, "case": case, "here": here, "there": there}) + "\n")
            self._save.flush()

    def report(self) -> None:
        for outcome, count in sorted(self.outcomes.items()):
            print(f"  {count:7} {outcome}")
        for row, count in self.explained.most_common():
            print(f"  explained {count:5} {row}")
        for kind, count in self.kinds.most_common(SHOWN_KINDS):
            print(f"  differ {count:5} {kind}")


def _started(folder: Path) -> PublishedNode:
    node = PublishedNode(folder, SCRIPT, {"op": "world", "made": world()})
    if "refused" in node.hello:
        raise SystemExit(f"the published node does not start: {node.hello['refused']}")
    return node


class _Progress:
    """Tells how far a kind is, once in a while; ``is_over`` after so many seconds."""

    def __init__(self, comparison: Comparison, kind: str, seconds: float) -> None:
        self._comparison, self._kind, self._seconds = comparison, kind, seconds
        self._begun = self._told = time.monotonic()
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._told > TOLD_S:
            self._told = time.monotonic()
            self.tell()

    def tell(self) -> None:
        differ, seconds = sum(self._comparison.kinds.values()), time.monotonic() - self._begun
        print(f"{self._done} {self._kind}, {differ} differ, {seconds:.0f} s", flush=True)

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._begun > self._seconds


def _run_kind(comparison: Comparison, kind: str, options: argparse.Namespace) -> None:
    """Up to the number of cases, or of seconds."""
    progress = _Progress(comparison, kind, options.seconds)
    source = KINDS[kind](options.seed)
    if kind == "pools":
        for case in itertools.islice(source, max(1, options.cases // 100)):
            comparison.run_pool(case)
            progress.add(1)
            if progress.is_over:
                break
        comparison.leave_pools()
    else:
        for batch in _batches(comparison, kind, itertools.islice(source, options.cases)):
            progress.add(batch)
            if not options.record:
                comparison.agreed.clear()
            if progress.is_over:
                break
    progress.tell()


def _batches(comparison: Comparison, kind: str, source: Iterator[Json]) -> Iterator[int]:
    """Sizes of what is compared: the next is made up and answered here while the published node has one."""
    following: list[Batch] = []

    def prepare() -> None:
        cases = list(itertools.islice(source, AT_ONCE))
        if cases:
            following.append(comparison.prepare(cases))

    prepare()
    while following:
        batch = following.pop()
        comparison.run(kind, batch, prepare)
        yield len(batch.cases)


def _record_verdicts(comparison: Comparison) -> None:
    questions = [question_of(case) for case in bent_cases()]
    comparison.run("bent", comparison.prepare(questions))
    record([answer["verdict"] for answer in comparison.there])


def _replay(comparison: Comparison, path: Path) -> None:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "pools":
            comparison.run_pool(row["case"])
            comparison.leave_pools()
        else:
            comparison.run(row["kind"], comparison.prepare([row["case"]]))
        print(json.dumps({"here": row["here"], "there": row["there"]}))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", metavar="FOLDER", help="where the published node is installed")
    parser.add_argument("--what", default=",".join(KINDS), help="what is compared; all by default")
    parser.add_argument("--cases", type=int, default=1_000, help="of each kind; a hundredth of it for pools")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most so many for each kind")
    parser.add_argument("--replay", type=Path, help="a file that --save has written, in the place of random cases")
    parser.add_argument("--record", type=Path, help="write cases on which both agree")
    parser.add_argument("--record-verdicts", action="store_true", help="write the verdicts on bent messages")
    parser.add_argument("--save", type=Path, help="write those on which they do not, one a line")
    options = parser.parse_args(arguments)
    node = _started(folder_of(options.node))
    save: Any = options.save.open("a") if options.save else None
    comparison = Comparison(node, save)
    try:
        if options.record_verdicts:
            _record_verdicts(comparison)
        elif options.replay:
            _replay(comparison, options.replay)
        else:
            for kind in options.what.split(","):
                _run_kind(comparison, kind, options)
    finally:
        comparison.close()
        if save is not None:
            save.close()
    comparison.report()
    if options.record:
        write_recording(options.record, comparison.agreed)
    return 1 if comparison.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
