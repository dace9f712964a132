"""Notes of a watched execution: the gas of each call by operation, and a window of its steps.

A step is one instruction.  What it costs is known when the next one of its call begins or the call ends; gas that calls
made by it have used is theirs.  A halt takes all that its call has left: that is nobody's instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from fastnode._twins.avm_instructions import LAYOUTS

__all__ = ["CallWatch", "GasMeter", "Step", "StepRecord"]

#: In the order in which meters are told.
_OPERATIONS = tuple(dict.fromkeys(LAYOUTS[opcode].name for opcode in sorted(LAYOUTS)))
_HALT = "HALT"


class GasMeter(NamedTuple):
    """Gas of one call's own instructions of one kind."""

    operation: str
    executions: int
    l2_gas: int
    da_gas: int


@dataclass(slots=True)
class Step:
    """One instruction: what was left before it and, once that is known, what it cost."""

    call: int
    pc: int
    operation: str
    l2_gas: int
    da_gas: int
    memory: Sequence[int]
    l2_cost: int = 0
    da_cost: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "call": self.call,
            "pc": self.pc,
            "operation": self.operation,
            "l2GasLeft": self.l2_gas,
            "daGasLeft": self.da_gas,
            "l2Gas": self.l2_cost,
            "daGas": self.da_cost,
            "memory": list(self.memory),
        }


@dataclass(slots=True)
class StepRecord:
    """The steps number ``first`` to ``first + room - 1``."""

    first: int
    room: int
    taken: int = 0
    calls: int = 0
    steps: list[Step] = field(default_factory=list)

    def watch_call(self) -> CallWatch:
        self.calls += 1
        return CallWatch(self, self.calls - 1)

    def add(self, step: Step) -> None:
        self.taken += 1
        if self.taken > self.first and len(self.steps) < self.room:
            self.steps.append(step)

    def json(self) -> bytes:
        return orjson.dumps([step.to_json() for step in self.steps])[1:-1]


@dataclass(slots=True)
class CallWatch:
    """One open call."""

    record: StepRecord
    call: int
    pc: int = 0
    step: Step | None = None
    nested_l2_gas: int = 0
    nested_da_gas: int = 0
    by_operation: dict[str, GasMeter] = field(default_factory=dict)
    lost: GasMeter | None = None

    def begin_step(self, pc: int, operation: str, memory: Sequence[int], l2_gas: int, da_gas: int) -> None:
        """An instruction that was fetched is executed next."""
        self.pc = pc
        self.step = Step(self.call, pc, operation, l2_gas, da_gas, memory)
        self.nested_l2_gas = self.nested_da_gas = 0
        self.record.add(self.step)

    def close_step(self, l2_gas: int, da_gas: int) -> None:
        """It has been executed; so much is left now."""
        step, self.step = self.step, None
        if step is None:
            return
        step.l2_cost = step.l2_gas - l2_gas - self.nested_l2_gas
        step.da_cost = step.da_gas - da_gas - self.nested_da_gas
        _, count, l2, da = self.by_operation.get(step.operation, GasMeter(step.operation, 0, 0, 0))
        self.by_operation[step.operation] = GasMeter(step.operation, count + 1, l2 + step.l2_cost, da + step.da_cost)

    def halt(self, l2_gas: int, da_gas: int) -> None:
        """The call halts, and loses what it has left."""
        self.close_step(l2_gas, da_gas)
        self.lost = GasMeter(_HALT, 1, l2_gas, da_gas)

    def add_nested(self, l2_gas: int, da_gas: int) -> None:
        """A call that the instruction has made used so much."""
        self.nested_l2_gas += l2_gas
        self.nested_da_gas += da_gas

    def meters(self) -> list[GasMeter]:
        own = [self.by_operation[name] for name in _OPERATIONS if name in self.by_operation]
        return own if self.lost is None else [*own, self.lost]
