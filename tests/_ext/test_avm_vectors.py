"""The interpreter and its twin against recorded executions."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests._ext.avm_world import expected, run_vector, vectors

from fastnode._twins import avm as twin
from fastnode.kernels import avm as kernel

INTERPRETERS = [pytest.param(kernel, id="kernel"), pytest.param(twin, id="python")]

#: Number of a file's vectors that the interpreter alone answers for.
COUNTS = {"calls": 102, "compute": 280, "fuzz": 2000, "gadgets": 119, "limits": 7, "misc": 48, "state": 202}


@pytest.mark.parametrize("avm", INTERPRETERS)
@pytest.mark.parametrize("name", COUNTS)
def test_recorded_executions_are_repeated_exactly(avm: ModuleType, name: str) -> None:
    count = 0
    for defaults, vector in vectors(name):
        assert run_vector(avm, defaults, vector) == expected(defaults, vector), vector["name"]
        count += 1
    assert count == COUNTS[name]
