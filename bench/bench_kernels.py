"""The kernels: Poseidon2 on every kernel that this processor runs, and the text forms.

Baselines, measured in the same run: for a hash, the twin in plain Python; for a text form, what the
standard library needs for the same text.  ``us_per_hash`` and ``times_faster`` are in the extra
columns of ``--benchmark-json`` and are printed at the end of a run.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from time import perf_counter
from types import ModuleType
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode._ext.hash import poseidon2
from fastnode._ext.wire import encode
from fastnode._twins import poseidon2 as twin
from fastnode._twins.poseidon2_constants import MODULUS

#: Enough for whole batches, and short enough to be measured between two interruptions.
BULK = 128
#: What the hash of a public transaction is made of.
RUN_FIELDS = 2_785
TIME_SLICE_S = 0.003
KERNELS = (*poseidon2.available_kernels(), "python")


def random_run(count: int) -> bytes:
    source = random.Random(count)
    return b"".join(source.randrange(MODULUS).to_bytes(32, "big") for _ in range(count))


def seconds_of(function: Callable[[], object], *, rounds: int = 30) -> float:
    """The shortest of a few calls: for baselines."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        function()
        times.append(perf_counter() - started)
    return min(times)


@pytest.fixture(scope="module")
def python_seconds_per_hash() -> float:
    run = random_run(2 * 4)
    return seconds_of(lambda: twin.hash_pairs(run)) / 4


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if request.param == "python":
        yield twin
        return
    before = poseidon2.kernel_name()
    poseidon2.use_kernel(request.param)
    yield poseidon2
    poseidon2.use_kernel(before)


@pytest.fixture(scope="module")
def figures() -> Iterator[list[str]]:
    lines: list[str] = []
    yield lines
    print("\n" + "\n".join(lines))


def note(benchmark: BenchmarkFixture, figures: list[str], *, unit: str, count: int, baseline_s: float) -> None:
    """Record the time of one of ``count``, and how many of them fit in the baseline's time of one."""
    if benchmark.stats is None:  # --benchmark-disable
        return
    # What is longer than a time slice has no calm median on a machine that does something else as well.
    stats = benchmark.stats.stats
    each_s = (stats.median if stats.median < TIME_SLICE_S else stats.min) / count
    benchmark.extra_info[f"us_per_{unit}"] = round(1e6 * each_s, 3)
    benchmark.extra_info["times_faster"] = round(baseline_s / each_s, 1)
    figures.append(f"{benchmark.name:<60} {1e6 * each_s:10.3f} us per {unit} {baseline_s / each_s:8.1f} x baseline")


# ---- Poseidon2 ----------------------------------------------------------------------------------


@pytest.mark.benchmark(group="one hash of a pair")
def test_hash_pair(
    benchmark: BenchmarkFixture, kernel: ModuleType, python_seconds_per_hash: float, figures: list[str]
) -> None:
    run = random_run(2)
    left, right = run[:32], run[32:]
    assert benchmark(kernel.hash_pair, left, right) == twin.hash_pair(left, right)
    note(benchmark, figures, unit="hash", count=1, baseline_s=python_seconds_per_hash)


@pytest.mark.benchmark(group="hashes of many pairs in one call")
@pytest.mark.parametrize("count", [2, 3, 8, 9, 16, BULK])
def test_hash_pairs(
    benchmark: BenchmarkFixture, kernel: ModuleType, count: int, python_seconds_per_hash: float, figures: list[str]
) -> None:
    if kernel is twin and count > 16:
        pytest.skip("takes long and says the same")
    run = random_run(2 * count)
    result = benchmark(kernel.hash_pairs, run)
    assert result[-32:] == twin.hash_pairs(run[-64:])
    note(benchmark, figures, unit="hash", count=count, baseline_s=python_seconds_per_hash)


@pytest.mark.benchmark(group="hashes of many leaves in one call")
@pytest.mark.parametrize(("name", "arity"), [("hash_leaves_3", 3), ("hash_leaves_4", 4)])
@pytest.mark.parametrize("kernel", poseidon2.available_kernels(), indirect=True)
def test_hash_leaves(
    benchmark: BenchmarkFixture,
    kernel: ModuleType,
    name: str,
    arity: int,
    python_seconds_per_hash: float,
    figures: list[str],
) -> None:
    benchmark(getattr(kernel, name), random_run(arity * BULK))
    note(benchmark, figures, unit="hash", count=BULK, baseline_s=python_seconds_per_hash)


@pytest.mark.benchmark(group="runs as long as the fields of a public transaction, in one call")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 9, 10, 16])
@pytest.mark.parametrize("kernel", poseidon2.available_kernels(), indirect=True)
def test_hash_long_runs(
    benchmark: BenchmarkFixture, kernel: ModuleType, count: int, python_seconds_per_hash: float, figures: list[str]
) -> None:
    if kernel.kernel_name() in ("portable", "x86-64-adx") and count > 2:
        pytest.skip("has no lanes: says the same")
    benchmark(kernel.hash_runs, random_run(RUN_FIELDS * count), RUN_FIELDS)
    note(benchmark, figures, unit="run", count=count, baseline_s=python_seconds_per_hash * RUN_FIELDS / 3)


# ---- text forms ---------------------------------------------------------------------------------

FIELD = random_run(1)
FIELDS = random_run(64)
TEXT = "0x" + FIELD.hex()


def field_by_standard_library(text: str) -> bytes:
    value = int(text, 16)
    if value >= MODULUS:
        raise ValueError
    return value.to_bytes(32, "big")


def quoted_by_standard_library(data: bytes) -> bytes:
    return json.dumps(["0x" + data[i : i + 32].hex() for i in range(0, len(data), 32)], separators=(",", ":")).encode()


@pytest.mark.benchmark(group="text forms")
@pytest.mark.parametrize(
    ("name", "argument", "standard"),
    [
        ("to_hex", FIELD, lambda data: b"0x" + data.hex().encode()),
        ("field_from_text", TEXT, field_by_standard_library),
        ("field_to_decimal", FIELD, lambda data: str(int.from_bytes(data, "big")).encode()),
        ("quoted_fields", FIELDS, quoted_by_standard_library),
        ("to_base64", FIELDS, base64.b64encode),
        ("from_base64", base64.b64encode(FIELDS), lambda text: base64.b64decode(text, validate=True)),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_text_form(
    benchmark: BenchmarkFixture, figures: list[str], name: str, argument: Any, standard: Callable[[Any], bytes]
) -> None:
    function = getattr(encode, name)
    assert benchmark(function, argument) == standard(argument)
    calls = 1_000
    baseline_s = seconds_of(lambda: [standard(argument) for _ in range(calls)]) / calls
    note(benchmark, figures, unit="call", count=1, baseline_s=baseline_s)
