"""Random programs and transactions on this virtual machine and on the published node's, compared in all that they give.

    scripts/compare-execution --node FOLDER --programs 20000 --seed 1
    scripts/compare-execution --node FOLDER --state trees ...         over trees in the place of dictionaries
    scripts/compare-execution --node FOLDER --replay differences.jsonl
    scripts/compare-execution --node FOLDER --replay CASES --record FILE.xz

Outcomes: revert code, gas in all its forms, fee, side effects in order, final writes, return values, debug logs, revert
reason, the record of calls, error texts; for blocks of transactions also the roots of the trees.  The exit status is 1
if anything differs.  What needs more memory than this node allows is counted apart (docs/compatibility.md).
``--record`` keeps cases on which both agree, with a digest of the outcome, for ``test_recorded_executions.py``.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import lzma
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from tests.comparison.execution_cases import random_cases
from tests.comparison.execution_outcomes import BASE, Json, base_state, digest, outcome, published_outcome
from tests.comparison.execution_trees import Trees
from tests.comparison.published_node import PublishedNode, folder_of, wire

from fastnode.protocol.effects import TxEffect

SCRIPT = Path(__file__).with_name("execution.mjs")
CASES_AT_ONCE = 24
#: How the errors of limits begin that only this node has.
GIVEN_UP = "Public execution needs more than"
#: Seconds between two lines that say how far it is.
TOLD_S = 60
#: Kinds of differences that are printed, and cases of each.
SHOWN_KINDS, SHOWN_CASES = 40, 2


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{index}]")
    else:
        yield f"{path}: fastnode {str(ours)[:200]} | published {str(theirs)[:200]}"


class Comparison:
    """Cases put to both, and what became of them."""

    def __init__(self, node: PublishedNode, *, over_trees: bool, save: TextIO | None, is_recorded: bool) -> None:
        self._node = node
        self._is_recorded = is_recorded
        self._begun = self._told = time.monotonic()
        self._trees = Trees(BASE)
        self._base: Any = base_state()
        if over_trees:
            self._base = self._trees.state_over(self._base)
        self._save = save
        self.programs = self.cases = self.given_up = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.agreed: list[tuple[Json, str]] = []

    def run(self, cases: Sequence[Json]) -> None:
        ours: list[tuple[Json, list[TxEffect]]] = []
        answers = self._node.ask_all(cases, lambda: ours.extend(outcome(self._base, case) for case in cases))
        for case, (found, effects), answer in zip(cases, ours, answers, strict=True):
            self._judge(case, found, effects, answer)
        if time.monotonic() - self._told > TOLD_S:
            self._told = time.monotonic()
            seconds = self._told - self._begun
            print(f"{self.programs} programs, {sum(self.kinds.values())} cases differ, {seconds:.0f} s", flush=True)

    def _judge(self, case: Json, found: Json, effects: list[TxEffect], answer: Json) -> None:
        self.cases += 1
        self.programs += case.get("programs", 1)
        for result in found.get("results", [found]):
            text = re.sub(r"0x[0-9a-f]+|\d+", "#", result.get("error", ""))
            self.outcomes[text[:100] or f"revert code {result['revertCode']}"] += 1
        if "unable" in answer or "ended" in answer:
            found_differences = [f"the published node cannot say: {answer}"[:400]]
        else:
            found_differences = list(differences(found, published_outcome(case, answer)))
            found_differences += self._trees.differences(case, effects, answer.get("roots"))
        if found.get("error", "").startswith(GIVEN_UP):
            self.given_up += 1
        elif found_differences:
            self._note(case, found_differences)
        elif self._is_recorded:
            self.agreed.append((case, digest(found)))

    def _note(self, case: Json, found_differences: list[str]) -> None:
        kind = re.sub(r"0x[0-9a-f]+|\d+", "#", found_differences[0])[:150]
        self.kinds[kind] += 1
        if self.kinds[kind] <= SHOWN_CASES and len(self.kinds) <= SHOWN_KINDS:
            print(f"DIFFERS case {case['id']}: " + " ;; ".join(found_differences[:3])[:900], flush=True)
            if self._save is not None:
                self._save.write(json.dumps(wire({**case, "differences": found_differences[:6]})) + "\n")
                self._save.flush()

    def close(self) -> None:
        self._trees.close()
        self._node.close()

    def report(self) -> None:
        differing = sum(self.kinds.values())
        print(
            f"{self.programs} programs in {self.cases} cases, {differing} cases differ, {self.given_up} given up here"
        )
        for text, count in self.outcomes.most_common(30):
            print(f"  {count:7} {text}")
        for kind, count in self.kinds.most_common(SHOWN_KINDS):
            print(f"  differ {count:4} {kind}")


def record(path: Path, agreed: list[tuple[Json, str]]) -> None:
    lines = [json.dumps({"case": wire(case), "outcome": found}, separators=(",", ":")) for case, found in agreed]
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", metavar="FOLDER", help="where the published node is installed")
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", choices=("memory", "trees"), default="memory")
    parser.add_argument("--replay", type=Path, help="a file of cases, one a line, in the place of random ones")
    parser.add_argument("--record", type=Path, help="write the cases on which both agree")
    parser.add_argument("--save", type=Path, help="write those on which they do not, one a line")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    node = PublishedNode(folder_of(options.node), SCRIPT, {"base": BASE})
    with contextlib.ExitStack() as stack:
        save = stack.enter_context(options.save.open("a")) if options.save else None
        over_trees, is_recorded = options.state == "trees", options.record is not None
        comparison = Comparison(node, over_trees=over_trees, save=save, is_recorded=is_recorded)
        stack.callback(comparison.close)
        if options.replay:
            cases = [json.loads(line) for line in options.replay.read_text().splitlines()]
            for start in range(0, len(cases), CASES_AT_ONCE):
                comparison.run(cases[start : start + CASES_AT_ONCE])
        else:
            source = random_cases(options.seed)
            while comparison.programs < options.programs:
                comparison.run([next(source) for _ in range(CASES_AT_ONCE)])
    comparison.report()
    print(f"seed {options.seed}, {time.monotonic() - begun:.0f} s")
    if options.record:
        record(options.record, comparison.agreed)
    return 1 if comparison.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
