"""Poseidon2: every kernel that runs here and the Python twin, under the same tests."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode._ext.hash import poseidon2 as extension
from fastnode._twins import poseidon2 as twin
from fastnode._twins.poseidon2_constants import MODULUS

ROOT = Path(__file__).parents[2]

#: Values at which limbs of 52 and 64 bits overflow, and the ends of the field.
EDGES = [
    0,
    1,
    2,
    MODULUS - 1,
    MODULUS - 2,
    MODULUS >> 1,
    (1 << 253) - 1,
    (1 << 128) - 1,
    1 << 208,
    (1 << 52) - 1,
    1 << 64,
]

canonical = st.one_of(st.sampled_from(EDGES), st.integers(0, MODULUS - 1))
not_canonical = st.one_of(st.just(MODULUS), st.just((1 << 256) - 1), st.integers(MODULUS, (1 << 256) - 1))


def as_field(value: int) -> bytes:
    return value.to_bytes(32, "big")


def as_run(values: list[int]) -> bytes:
    return b"".join(map(as_field, values))


def random_run(count: int, *, seed: int) -> bytes:
    source = random.Random(seed)
    return as_run([source.randrange(MODULUS) for _ in range(count)])


@pytest.fixture(params=[*extension.available_kernels(), "python"])
def poseidon2(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The extension on each of its kernels, and the twin."""
    if request.param == "python":
        yield twin
        return
    before = extension.kernel_name()
    extension.use_kernel(request.param)
    yield extension
    extension.use_kernel(before)


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(gzip.decompress((ROOT / "tests/data/poseidon2_vectors.json.gz").read_bytes()))
    return recorded


def fields_of(vector: dict[str, Any]) -> bytes:
    """The inputs of a recorded hash; the long ones are recorded as the seed of x <- x * x + 7 i + 3."""
    if "in" in vector:
        return b"".join(bytes.fromhex(text[2:]) for text in vector["in"])
    x, values = vector["seed"], []
    for i in range(vector["n"]):
        x = (x * x + 7 * i + 3) % MODULUS
        values.append(x)
    return as_run(values)


# ---- recorded answers ---------------------------------------------------------------------------


def test_recorded_permutations_come_out(poseidon2: ModuleType, vectors: dict[str, Any]) -> None:
    for vector in vectors["permutation"]:
        expected = b"".join(bytes.fromhex(text[2:]) for text in vector["out"])
        assert poseidon2.permute(fields_of(vector)) == expected


def test_recorded_hashes_of_every_length_come_out(poseidon2: ModuleType, vectors: dict[str, Any]) -> None:
    assert len(vectors["hash"]) == 75
    for vector in vectors["hash"]:
        assert poseidon2.hash_fields(fields_of(vector)).hex() == vector["out"][2:]


def test_a_separator_is_the_first_field(poseidon2: ModuleType, vectors: dict[str, Any]) -> None:
    for vector in vectors["hash_with_separator"]:
        fields = as_field(vector["separator"]) + fields_of(vector)
        assert poseidon2.hash_fields(fields).hex() == vector["out"][2:]


# ---- many at once -------------------------------------------------------------------------------

MANY = [("hash_pairs", 2), ("hash_leaves_3", 3), ("hash_leaves_4", 4)]


@pytest.mark.parametrize(("name", "arity"), MANY)
@pytest.mark.parametrize("count", [*range(20), 31, 32, 33, 40])
def test_many_hashes_are_each_the_hash_of_its_own_fields(
    poseidon2: ModuleType, name: str, arity: int, count: int
) -> None:
    run = random_run(arity * count, seed=count)
    size = 32 * arity
    expected = [twin.hash_fields(run[start : start + size]) for start in range(0, len(run), size)]
    assert getattr(poseidon2, name)(run) == b"".join(expected)


@pytest.mark.parametrize("arity", [1, 2, 5, 6, 7, 13])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9, 10, 16, 17])
def test_runs_of_any_arity_hash_like_their_fields(poseidon2: ModuleType, arity: int, count: int) -> None:
    runs = random_run(arity * count, seed=arity)
    size = 32 * arity
    expected = [twin.hash_fields(runs[start : start + size]) for start in range(0, len(runs), size)]
    assert poseidon2.hash_runs(runs, arity) == b"".join(expected)


def answers_of_all_kernels(values: list[int], arity: int) -> set[bytes]:
    before = extension.kernel_name()
    answers = set()
    for kernel in extension.available_kernels():
        extension.use_kernel(kernel)
        answers.add(extension.hash_runs(as_run(values), arity))
    extension.use_kernel(before)
    return answers


def test_long_runs_hash_alike_on_all_kernels() -> None:
    # Between two permutations of a run a bound was once too large; one run in 1,600 of these came out wrong.
    source, arity = random.Random(30), 30
    values = [int.from_bytes(source.randbytes(32), "big") % MODULUS for _ in range(6_666 * arity)]
    assert len(answers_of_all_kernels(values, arity)) == 1


@pytest.mark.parametrize("count", [*range(1, 12), 17])
def test_a_few_long_runs_with_edges_hash_alike_on_all_kernels(count: int) -> None:
    # Each batch is a way of its own; on these chains every bound is met with values from both ends of the field.
    source, arity = random.Random(count), 100
    for _ in range(12):
        values = [source.choice([*EDGES, *(source.randrange(MODULUS) for _ in EDGES)]) for _ in range(count * arity)]
        assert len(answers_of_all_kernels(values, arity)) == 1


@pytest.mark.parametrize("arity", [-1, 0, (1 << 20) + 1, 1 << 70])
def test_runs_without_a_possible_arity_are_refused(poseidon2: ModuleType, arity: int) -> None:
    with pytest.raises(ValueError, match=f"^arity must be from 1 to 1048576, not {arity}$"):
        poseidon2.hash_runs(bytes(64), arity)


@pytest.mark.parametrize(("name", "arity"), MANY)
def test_the_edges_of_the_field_hash_alike_in_every_lane(poseidon2: ModuleType, name: str, arity: int) -> None:
    run = as_run([edge for edge in EDGES for _ in range(arity)] + [*EDGES, *reversed(EDGES)] * arity)
    size = 32 * arity
    expected = [twin.hash_fields(run[start : start + size]) for start in range(0, len(run), size)]
    assert getattr(poseidon2, name)(run) == b"".join(expected)


@settings(max_examples=40)
@given(st.lists(canonical, min_size=24, max_size=48))
def test_kernels_and_twin_agree_on_any_fields(values: list[int]) -> None:
    run = as_run(values[: len(values) // 12 * 12])
    before = extension.kernel_name()
    try:
        for name, _ in MANY:
            expected = getattr(twin, name)(run)
            for kernel in extension.available_kernels():
                extension.use_kernel(kernel)
                assert getattr(extension, name)(run) == expected, kernel
    finally:
        extension.use_kernel(before)


@settings(max_examples=60)
@given(st.lists(canonical, min_size=4, max_size=4))
def test_permutations_agree_on_any_state(values: list[int]) -> None:
    assert extension.permute(as_run(values)) == twin.permute(as_run(values))


def test_all_kernels_agree_on_every_state_of_four_edges() -> None:
    states = [list(state) for state in itertools.product([0, 1, MODULUS >> 1, MODULUS - 1], repeat=4)]
    before = extension.kernel_name()
    permuted, pairs = set(), set()
    for kernel in extension.available_kernels():
        extension.use_kernel(kernel)
        permuted.add(b"".join(extension.permute(as_run(state)) for state in states))
        # Two at a time, each with another one beside it.
        both = zip(states, reversed(states), strict=True)
        pairs.add(b"".join(extension.hash_leaves_4(as_run([*one, *other])) for one, other in both))
    extension.use_kernel(before)
    assert len(permuted) == len(pairs) == 1


def test_all_kernels_agree_on_ten_thousand_random_pairs() -> None:
    nodes = b"".join(
        as_field(int.from_bytes(random.Random(number).randbytes(32), "big") % MODULUS) for number in range(20_000)
    )
    before = extension.kernel_name()
    answers = set()
    for kernel in extension.available_kernels():
        extension.use_kernel(kernel)
        answers.add(extension.hash_pairs(nodes))
    extension.use_kernel(before)
    assert len(answers) == 1


def test_hashes_in_threads_do_not_disturb_each_other(poseidon2: ModuleType) -> None:
    runs = [random_run(2 * 50, seed=seed) for seed in range(4)]
    expected = [twin.hash_pairs(run) for run in runs]
    answers: list[bytes] = [b""] * len(runs)

    def work(number: int) -> None:
        for _ in range(3):
            answers[number] = poseidon2.hash_pairs(runs[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == expected


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_hashing_leaves_the_rounding_of_floats_alone(poseidon2: ModuleType, count: int) -> None:
    def quotients() -> list[float]:
        return [sign * a / b for sign in (1, -1) for a in range(1, 20) for b in range(1, 20)]

    before = quotients()
    poseidon2.hash_pairs(random_run(2 * count, seed=1))
    poseidon2.sponges_absorb(random_run(4 * count, seed=2), [random_run(3, seed=3)] * count)
    assert quotients() == before


# ---- single -------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(canonical, canonical)
def test_a_pair_hashes_like_its_two_fields(left: int, right: int) -> None:
    expected = twin.hash_fields(as_run([left, right]))
    for module in (extension, twin):
        assert module.hash_pair(as_field(left), as_field(right)) == expected
        assert module.hash_fields(as_run([left, right])) == expected


@pytest.mark.parametrize("groups", [0, 1, 2, 5])
def test_absorbing_is_adding_and_permuting(poseidon2: ModuleType, groups: int) -> None:
    state, fields = random_run(4, seed=1), random_run(3 * groups, seed=2)
    expected = state
    for start in range(0, len(fields), 96):
        values = [int.from_bytes(expected[i : i + 32], "big") for i in range(0, 128, 32)]
        for lane in range(3):
            added = int.from_bytes(fields[start + 32 * lane : start + 32 * lane + 32], "big")
            values[lane] = (values[lane] + added) % MODULUS
        expected = twin.permute(as_run(values))
    assert poseidon2.sponge_absorb(state, fields) == expected


def test_absorbing_leaves_the_given_state_alone(poseidon2: ModuleType) -> None:
    state = random_run(4, seed=3)
    copy = bytes(bytearray(state))
    poseidon2.sponge_absorb(state, random_run(3, seed=4))
    assert state == copy


# ---- sponges side by side -------------------------------------------------------------------------


def absorbed_one_by_one(states: bytes, runs: list[bytes]) -> bytes:
    """The same by the extension's plain routine, on whatever kernel is chosen."""
    return b"".join(extension.sponge_absorb(states[128 * i : 128 * i + 128], run) for i, run in enumerate(runs))


@pytest.mark.parametrize("count", [*range(12), 16, 17, 25])
def test_sponges_side_by_side_absorb_like_each_alone(poseidon2: ModuleType, count: int) -> None:
    source = random.Random(count)
    lengths = [source.choice([0, 1, 2, 3, source.randrange(12)]) for _ in range(count)]
    states = random_run(4 * count, seed=count)
    runs = [random_run(3 * length, seed=100 * count + i) for i, length in enumerate(lengths)]
    expected = b"".join(twin.sponge_absorb(states[128 * i : 128 * i + 128], run) for i, run in enumerate(runs))
    assert poseidon2.sponges_absorb(states, runs) == expected
    assert poseidon2.sponges_absorb(states, tuple(runs)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_sponges_of_any_lengths_absorb_alike_on_all_kernels(seed: int) -> None:
    # Long and short chains, values from both ends of the field: lanes are left and taken at every step of each other.
    source = random.Random(seed)
    before, answers = extension.kernel_name(), set()
    few = [0, 1, 2, 3, 7, 8, 9]
    lengths = [source.choice([*few, source.randrange(100), source.randrange(1_000)]) for _ in range(40)]
    values = [source.choice([*EDGES, *(source.randrange(MODULUS) for _ in EDGES)]) for _ in range(3 * sum(lengths))]
    joined, runs = as_run(values), []
    for length in lengths:
        runs.append(joined[: 96 * length])
        joined = joined[96 * length :]
    states = as_run([source.choice(EDGES) for _ in range(4 * len(lengths))])
    try:
        for kernel in extension.available_kernels():
            extension.use_kernel(kernel)
            answers |= {extension.sponges_absorb(states, runs), absorbed_one_by_one(states, runs)}
    finally:
        extension.use_kernel(before)
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("states", "fields", "error", "said"),
    [
        (bytes(127), [], ValueError, "states must be a multiple of 128 bytes long, not 127"),
        (bytes(128), [], ValueError, "fields must be 1 runs, one for each state, not 0"),
        (bytes(128), [b"", b""], ValueError, "fields must be 1 runs, one for each state, not 2"),
        (bytes(256), [b"", bytes(95)], ValueError, "run 1 of fields must be a multiple of 96 bytes long, not 95"),
        (bytes(128), [bytearray(96)], TypeError, "run 0 of fields must be bytes, not bytearray"),
        (bytearray(128), [b""], TypeError, "states must be bytes, not bytearray"),
        (as_run([0, 0, 0, MODULUS]), [b""], ValueError, "element 3 of states is not below the field modulus"),
        (
            bytes(256),
            [bytes(96), as_run([0, MODULUS, 0])],
            ValueError,
            "element 4 of fields is not below the field modulus",
        ),
    ],
)
def test_sponges_that_cannot_be_are_refused(
    poseidon2: ModuleType, states: bytes, fields: list[bytes], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=f"^{said}$"):
        poseidon2.sponges_absorb(states, fields)


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("permute", (bytes(127),), "state must be 128 bytes long, not 127"),
        ("permute", (b"",), "state must be 128 bytes long, not 0"),
        ("hash_fields", (bytes(33),), "fields must be a multiple of 32 bytes long, not 33"),
        ("hash_pair", (bytes(31), bytes(32)), "left must be 32 bytes long, not 31"),
        ("hash_pair", (bytes(32), bytes(64)), "right must be 32 bytes long, not 64"),
        ("hash_pairs", (bytes(32),), "nodes must be a multiple of 64 bytes long, not 32"),
        ("hash_leaves_3", (bytes(64),), "leaves must be a multiple of 96 bytes long, not 64"),
        ("hash_leaves_4", (bytes(96),), "leaves must be a multiple of 128 bytes long, not 96"),
        ("sponge_absorb", (bytes(96), b""), "state must be 128 bytes long, not 96"),
        ("sponge_absorb", (bytes(128), bytes(32)), "fields must be a multiple of 96 bytes long, not 32"),
    ],
)
def test_a_run_of_a_wrong_length_is_refused(
    poseidon2: ModuleType, name: str, arguments: tuple[bytes, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        getattr(poseidon2, name)(*arguments)


@pytest.mark.parametrize(
    "wrong", ["", None, 5, bytearray(128), memoryview(bytes(128))], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.parametrize("name", ["permute", "hash_fields", "hash_pairs", "hash_leaves_3", "hash_leaves_4"])
def test_anything_but_bytes_is_refused(poseidon2: ModuleType, name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be bytes, not"):
        getattr(poseidon2, name)(wrong)


@settings(max_examples=30)
@given(not_canonical, st.integers(0, 11))
def test_an_element_above_the_modulus_is_refused_with_its_index(value: int, index: int) -> None:
    run = as_run([0] * index + [value] + [0] * (11 - index))
    for module in (extension, twin):
        for name, argument in [
            ("hash_fields", "fields"),
            ("hash_pairs", "nodes"),
            ("hash_leaves_3", "leaves"),
            ("hash_leaves_4", "leaves"),
        ]:
            with pytest.raises(ValueError, match=f"^element {index} of {argument} is not below the field modulus$"):
                getattr(module, name)(run)


@pytest.mark.parametrize("value", [MODULUS, MODULUS + 1, (1 << 256) - 1])
def test_single_elements_above_the_modulus_are_refused(poseidon2: ModuleType, value: int) -> None:
    zero, wrong = bytes(32), as_field(value)
    for name, arguments, argument in [
        ("hash_pair", (wrong, zero), "element 0 of left"),
        ("hash_pair", (zero, wrong), "element 0 of right"),
        ("permute", (zero * 3 + wrong,), "element 3 of state"),
        ("sponge_absorb", (zero * 3 + wrong, b""), "element 3 of state"),
        ("sponge_absorb", (zero * 4, zero + wrong + zero), "element 1 of fields"),
    ]:
        with pytest.raises(ValueError, match=f"^{argument} is not below the field modulus$"):
            getattr(poseidon2, name)(*arguments)


# ---- choice of the kernel -----------------------------------------------------------------------


def kernel_in_a_new_process(wanted: str) -> subprocess.CompletedProcess[str]:
    program = "from fastnode._ext.hash import poseidon2; print(poseidon2.kernel_name())"
    environment = os.environ | {"FASTNODE_KERNEL": wanted}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kernel", extension.available_kernels())
def test_the_environment_names_the_kernel(kernel: str) -> None:
    assert kernel_in_a_new_process(kernel).stdout == f"{kernel}\n"


def test_without_a_name_the_fastest_kernel_is_used() -> None:
    assert kernel_in_a_new_process("").stdout == f"{extension.available_kernels()[-1]}\n"


def test_an_unknown_kernel_stops_the_start_with_the_names_there_are() -> None:
    ended = kernel_in_a_new_process("avx9")
    assert ended.returncode != 0
    assert "SettingError: FASTNODE_KERNEL: there is no kernel 'avx9', only portable" in ended.stderr


def test_the_portable_kernel_is_always_there() -> None:
    assert extension.available_kernels()[0] == "portable"


def test_a_kernel_that_does_not_exist_cannot_be_used(poseidon2: ModuleType) -> None:
    before = poseidon2.kernel_name()
    with pytest.raises(ValueError, match="there is no kernel 'fast', only "):
        poseidon2.use_kernel("fast")
    assert poseidon2.kernel_name() == before


# ---- tables -------------------------------------------------------------------------------------


def test_the_tables_of_the_kernels_are_what_the_script_writes() -> None:
    script = ROOT / "scripts/make-poseidon2-tables"
    ended = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
