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
from typing import Any, Final, TextIO

from tests.comparison.message_cases import attested_cases, message_cases
from tests.comparison.pool_sequences import PoolHere, sequences, steps_there
from tests.comparison.published_node import PublishedNode, folder_of
from tests.comparison.record_cases import blob_cases, record_cases, record_json_cases
from tests.comparison.transaction_cases import binary_cases, json_cases
from tests.comparison.transaction_differences import differences, explanation, pool_difference, pool_explanation
from tests.comparison.transaction_outcomes import Answers, Json, world
from tests.comparison.transaction_recording import write_recording
from tests.p2p.bent_messages import cases as bent_cases
from tests.p2p.bent_messages import question_of, record

SCRIPT = Path(__file__).with_name("transactions.mjs")
AT_ONCE = 16
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


class Comparison:
    """Cases put to both, and what became of them."""

    def __init__(self, node: PublishedNode, save: TextIO | None) -> None:
        self._node, self._save = node, save
        keys, contracts = (bytes.fromhex(node.hello[name][2:]) for name in ("vkTreeRoot", "protocolContractsHash"))
        self._answers = Answers((keys, contracts))
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.explained: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.agreed: list[tuple[Json, Json]] = []
        self.there: list[Json] = []

    def run(self, kind: str, cases: Sequence[Json]) -> None:
        if kind == "pools":
            for case in cases:
                self._run_pool(case)
            self._node.ask({"op": "world", "made": world()})  # a pool has one of its own
            return
        ours: list[Json] = []
        self.there = self._node.ask_all(cases, lambda: ours.extend(map(self._answers, cases)))
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

    def _run_pool(self, case: Json) -> None:
        """Up to the first step that differs and is not explained."""
        here, answers, is_plain = PoolHere(case), list[Json](), True
        self._node.ask({"op": "pool", "made": case["made"], **case["options"]})
        try:
            for place, (step, sent) in enumerate(zip(case["steps"], steps_there(case), strict=True)):
                mined_before = {tx_hash for tx_hash in here.hashes if here.is_mined(tx_hash)}
                events = here.pool.events.copy()
                ours, there = here.step(step), self._node.ask(sent)
                answers.append(ours)
                self.outcomes[f"pools: {step['do']} {' '.join(map(str, (ours['answer'] or [])[:2]))}"] += 1
                name = pool_difference(step, ours, there)
                if name is None:
                    continue
                causes = {cause for cause, count in here.pool.events.items() if count > events[cause]}
                reason = pool_explanation(case, step, mined_before, causes, ours, there)
                if reason is None:
                    self._note("pools", {**case, "steps": case["steps"][: place + 1]}, name, ours, there)
                    return
                is_plain = False
                self.explained[reason] += 1
                extra = [tx_hash for tx_hash in there["pending"] if tx_hash not in ours["pending"]]
                self._node.ask({"op": "step", "do": "drop", "hashes": extra, "all": []})
            if is_plain:
                self.agreed.append((case, {"answers": answers}))
        finally:
            here.close()

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


def _run_kind(comparison: Comparison, kind: str, options: argparse.Namespace) -> None:
    """Up to the number of cases, or of seconds."""
    wanted = max(1, options.cases // 100) if kind == "pools" else options.cases
    source, done, begun, told = KINDS[kind](options.seed), 0, time.monotonic(), time.monotonic()
    while done < wanted and time.monotonic() - begun < options.seconds:
        cases = list(itertools.islice(source, min(1 if kind == "pools" else AT_ONCE, wanted - done)))
        if not cases:
            break
        comparison.run(kind, cases)
        done += len(cases)
        if not options.record:
            comparison.agreed.clear()
        if time.monotonic() - told > TOLD_S:
            told = time.monotonic()
            print(f"{done} {kind}, {sum(comparison.kinds.values())} differ, {told - begun:.0f} s", flush=True)
    print(f"{done} {kind}, {sum(comparison.kinds.values())} differ, {time.monotonic() - begun:.0f} s", flush=True)


def _record_verdicts(comparison: Comparison) -> None:
    questions = [question_of(case) for case in bent_cases()]
    comparison.run("bent", questions)
    record([answer["verdict"] for answer in comparison.there])


def _replay(comparison: Comparison, path: Path) -> None:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        comparison.run(row["kind"], [row["case"]])
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
        node.close()
        if save is not None:
            save.close()
    comparison.report()
    if options.record:
        write_recording(options.record, comparison.agreed)
    return 1 if comparison.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
