"""The whole check: everything that is stored is worked out again and compared.

    Plan        the steps, from the databases as they are
    Steps       runs a step on databases that are open: those of the data directory, or a copy of them
    conclude    one report of what all steps have found, in the order of the plan

A step stands alone.  So they may be run one after the other, by several processes, or the rest of them by another run
of the command: what a step has found is JSON.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from fastnode.archiver import layout as chain_layout
from fastnode.archiver.check import (
    DAMAGE,
    ChainCheck,
    ChainFindings,
    CheckReport,
    conclude_chain,
    count_keys,
    runs_of_epochs,
    text_of,
)
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.chain_data import ChainData
from fastnode.data_check.side_databases import check_side_databases, check_tables, compare_state
from fastnode.errors import StartError
from fastnode.log_index import layout as index_layout
from fastnode.log_index.check import IndexCheck, IndexFindings, conclude_indexes, heads_elsewhere, ranges_of_tags
from fastnode.records import dataclass
from fastnode.storage.database import reason_of
from fastnode.storage.database_files import is_database
from fastnode.storage.table_files import table_facts
from fastnode.world_state.state import WORLD_STATE_DIRECTORY

__all__ = ["STATE", "Plan", "Step", "Steps", "check_chain", "check_data", "check_planned", "conclude", "plan_of"]

#: Kinds of steps.
HEAD: Final = "head"
BLOCKS: Final = "blocks"
TAGS: Final = "tags"
KEYS: Final = "keys"
STATE: Final = "state"

#: Blocks of a run, at most: some seconds.
RUN_BLOCKS_MAX: Final = 512
#: So many runs are enough for any number of processes.
RUNS_MIN: Final = 16
RUN_BLOCKS_MIN: Final = 16

#: Expected processor time in microseconds, for nothing but the time that is left: of a block, of a byte of the chain
#: database in a block, of its logs by tag, and of its keys.
_BLOCK_US: Final = 500
_BODY_BYTE_US: Final = 0.06
_TAG_BYTE_US: Final = 0.01
_KEY_BYTE_US: Final = 0.002
#: Random bytes for the sums of the state's check.
_SEED_BYTES: Final = 128

Progress = Callable[[int, int], None]
#: Called with the part of a step that is done.
Advance = Callable[[float], None]


class Step(NamedTuple):
    """``where`` is what the kind needs: numbers, keys in hex, or a step of the state's check."""

    kind: str
    where: tuple[Any, ...] = ()
    #: Expected processor time in microseconds.
    work: int = 1


@dataclass(slots=True)
class Plan:
    """The steps of a check, with the bytes at random that those of the state share."""

    steps: list[Step]
    seed: bytes
    #: Notes about indexes that are not where the chain is: they are left to the next start.
    index_notes: list[str]
    has_chain: bool = False


def check_data(data: ChainData, *, progress: Progress | None = None) -> CheckReport:
    """Work out again everything that is stored and compare; ``progress(done, total)`` counts expected microseconds."""
    return _check(data, progress, is_whole=True)


def check_chain(data: ChainData, *, progress: Progress | None = None) -> CheckReport:
    """:func:`check_data` of the chain database and its indexes alone."""
    return _check(data, progress, is_whole=False)


def _check(data: ChainData, progress: Progress | None, *, is_whole: bool) -> CheckReport:
    report = CheckReport()
    check_planned(data, plan_of(data, report, is_whole=is_whole), report, progress, is_whole=is_whole)
    return report


def check_planned(
    data: ChainData, plan: Plan, report: CheckReport, progress: Progress | None, *, is_whole: bool = True
) -> None:
    """Run all steps of a plan in this process, and add what they find to ``report``."""
    total, done = sum(step.work for step in plan.steps), 0

    def advance(part: float) -> None:
        if progress is not None:
            progress(int(done + part * step.work), total)

    found = []
    with Steps(data, plan.seed) as steps:
        for step in plan.steps:
            found.append(steps.run(step, advance))
            done += step.work
    conclude(data, plan, found, report, is_whole=is_whole)


# ---- what there is to do --------------------------------------------------------------------------------


def plan_of(data: ChainData, report: CheckReport, *, is_whole: bool = True) -> Plan:
    """The steps for the databases; what keeps them from being read at all goes to ``report``."""
    plan = Plan([], os.urandom(_SEED_BYTES), [])
    try:
        if not data.store.has_chain:
            report.notes.append("the database holds no chain yet")
            return plan
        plan.has_chain = True
        size = sum(length for length, _ in table_facts(data.directory.path / ARCHIVER_DIRECTORY).values())
        with data.store.open_view() as view:
            plan.index_notes += heads_elsewhere(view)
            plan.steps += _steps_of_chain(view, size, not plan.index_notes)
    except DAMAGE as error:
        report.problems.append(f"the database cannot be read: {text_of(error)}")
    if not plan.has_chain:
        return plan
    if is_whole:
        plan.steps += _steps_of_state(data, report, plan.seed)
    return plan


def _steps_of_chain(view: ChainView, size: int, has_indexes: bool) -> Iterator[Step]:
    yield Step(HEAD)
    tip = view.tip_number
    byte_us = _BODY_BYTE_US * size / max(1, tip)
    for first, last in runs_of_epochs(view, min(RUN_BLOCKS_MAX, max(RUN_BLOCKS_MIN, tip // RUNS_MIN))):
        yield Step(BLOCKS, (first, last, has_indexes), int((last - first + 1) * (_BLOCK_US + byte_us)))
    if has_indexes:
        ranges = list(ranges_of_tags())
        for start, stop in ranges:
            yield Step(TAGS, (start.hex(), stop.hex()), 1 + int(_TAG_BYTE_US * size / len(ranges)))
    firsts = [b"", *sorted(_BOUNDS_OF_KEYS)]
    for start, stop in zip_longest(firsts, firsts[1:]):
        work = 1 + int(_KEY_BYTE_US * size / len(firsts))
        yield Step(KEYS, (start.hex(), None if stop is None else stop.hex()), work)


#: First keys of ranges in which all keys are counted.
_BOUNDS_OF_KEYS: Final = (
    chain_layout.BLOCK,
    chain_layout.EFFECT,
    chain_layout.TX_HASHES,
    chain_layout.BLOCK_BY_HASH,
    chain_layout.TRANSACTION,
    index_layout.PRIVATE_COUNT,
    index_layout.PRIVATE_PAGE,
    index_layout.PUBLIC_LOG,
    index_layout.CLASS_LOG,
)


def _steps_of_state(data: ChainData, report: CheckReport, seed: bytes) -> list[Step]:
    if not is_database(data.directory.path / WORLD_STATE_DIRECTORY):
        report.notes.append("there are no state trees yet; the next start builds them from the chain")
        return []
    try:
        state = data.state
        with data.store.open_view() as chain:
            compare_state(report, chain, state.view.tip)
        return [Step(STATE, tuple(step), step.work) for step in state.open_check(seed).steps()]
    except (StartError, *DAMAGE) as error:
        report.problems.append(f"the state trees: {reason_of(error)}")
        return []


# ---- doing it -------------------------------------------------------------------------------------------


class Steps:
    """Runs steps on the databases of ``data``, which may be a copy; ``seed`` is that of the plan."""

    def __init__(self, data: ChainData, seed: bytes) -> None:
        self._data = data
        self._seed = seed

    def run(self, step: Step, advance: Advance) -> dict[str, Any]:
        """Findings of the step, as JSON.  Damage is found, never raised."""
        run: dict[str, Callable[..., dict[str, Any]]] = {
            HEAD: self._head,
            BLOCKS: self._blocks,
            TAGS: self._tags,
            KEYS: self._keys,
            STATE: self._state,
        }
        try:
            found = run[step.kind](advance, *step.where)
        except DAMAGE as error:
            found = {"fault": text_of(error)}
        advance(1.0)
        return found

    def close(self) -> None:
        if "_view" in self.__dict__:
            self._view.close()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _view(self) -> ChainView:
        return self._data.store.open_view()

    @cached_property
    def _state_check(self) -> Any:
        return self._data.state.open_check(self._seed)

    def _head(self, _advance: Advance) -> dict[str, Any]:
        check = ChainCheck(self._view)
        check.check_head()
        return {"chain": check.findings.to_json()}

    def _blocks(self, advance: Advance, first: int, last: int, has_indexes: bool) -> dict[str, Any]:
        indexes = IndexCheck(self._view, first)
        check = ChainCheck(
            self._view,
            on_block=lambda number: advance((number - first) / (last - first + 1)),
            on_body=indexes.check_block if has_indexes else None,
        )
        check.check_blocks(first, last)
        return {"chain": check.findings.to_json(), "indexes": indexes.findings.to_json()}

    def _tags(self, _advance: Advance, start: str, stop: str) -> dict[str, Any]:
        indexes = IndexCheck(self._view)
        indexes.check_tags(bytes.fromhex(start), bytes.fromhex(stop))
        return {"indexes": indexes.findings.to_json()}

    def _keys(self, _advance: Advance, start: str, stop: str | None) -> dict[str, Any]:
        stored = count_keys(self._view, bytes.fromhex(start), None if stop is None else bytes.fromhex(stop))
        return {"keys": {kind.hex(): count for kind, count in stored.items()}}

    def _state(self, advance: Advance, *where: Any) -> dict[str, Any]:
        from fastnode.world_state.check import StateStep  # numpy, which a small installation lacks

        found = self._state_check.run(StateStep(*where), advance)
        return {"faults": found.faults, "total": hex(found.total)}


# ---- what it comes to -----------------------------------------------------------------------------------


def conclude(
    data: ChainData, plan: Plan, found: Sequence[dict[str, Any]], report: CheckReport, *, is_whole: bool = True
) -> None:
    """Add to ``report`` what the steps have found, and what only all of them together tell."""
    state_problems, report.problems = report.problems, []
    steps = list(zip(plan.steps, found, strict=True))
    if any(step.kind == HEAD for step in plan.steps):
        _conclude_chain(data, plan, steps, report)
    report.problems += state_problems
    if is_whole and plan.has_chain:
        _conclude_state(data, plan, steps, report)
        check_side_databases(report, data)
    if is_whole:
        check_tables(report, data)


def _conclude_chain(
    data: ChainData, plan: Plan, steps: Sequence[tuple[Step, dict[str, Any]]], report: CheckReport
) -> None:
    chain, indexes, stored = ChainFindings(), IndexFindings(), Counter[bytes]()
    for step, one in steps:
        if step.kind == STATE:
            continue
        if "fault" in one:
            chain.problems.append(f"{_place_of(step)}: {one['fault']}")
        if "chain" in one:
            chain.add(ChainFindings.from_json(one["chain"]))
        if "indexes" in one:
            indexes.add(IndexFindings.from_json(one["indexes"]))
        stored.update({bytes.fromhex(kind): count for kind, count in one.get("keys", {}).items()})
    try:
        with data.store.open_view() as view:
            conclude_chain(view, chain, report, stored)
            if plan.index_notes:
                report.notes += plan.index_notes
            elif report.clean:  # of a broken chain nothing can be worked out
                problems = conclude_indexes(view, indexes, stored)
                report.problems += (f"the indexes: {problem}" for problem in problems)
    except DAMAGE as error:
        report.problems.append(f"the database cannot be read: {text_of(error)}")


def _place_of(step: Step) -> str:
    if step.kind == BLOCKS:
        return f"blocks {step.where[0]} to {step.where[1]}"
    return {HEAD: "the genesis", TAGS: "the logs of tags", KEYS: "the keys"}[step.kind]


def _conclude_state(
    data: ChainData, plan: Plan, steps: Sequence[tuple[Step, dict[str, Any]]], report: CheckReport
) -> None:
    of_state = [(step, one) for step, one in steps if step.kind == STATE]
    if not of_state:
        return
    from fastnode.world_state.check import Finding, StateStep  # numpy, which a small installation lacks

    where = [StateStep(*step.where) for step, _ in of_state]
    found = [
        Finding([one["fault"]], 0) if "fault" in one else Finding(one["faults"], int(one["total"], 16))
        for _, one in of_state
    ]
    try:
        faults = data.state.open_check(plan.seed).conclude(where, found)
    except DAMAGE as error:
        faults = [reason_of(error)]
    report.problems += (f"the state trees: {fault}" for fault in faults)
