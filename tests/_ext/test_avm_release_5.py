"""The machine of release 5.x where it differs, as its native machine did it: points without flags, dearer copies, one
member more of an instance, zeros beyond memory."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests._ext.avm_programs import assemble, put
from tests._ext.avm_world import Contract, World, as_field, split
from tests._ext.test_avm_machine import INTERPRETERS, PLENTY, SENDER, execute, machine_for

from fastnode._twins.avm_instructions import FF, LAYOUTS, U32, U64, Rules
from fastnode.protocol.releases import FIVE, FOUR, MachineRules

GAS = 6_540_000
#: Hash of the immutables of all contracts.
IMMUTABLES = 12345

every = pytest.mark.parametrize("avm", INTERPRETERS)


def outcome_of(avm: ModuleType, case: dict[str, Any], rules: MachineRules) -> Any:
    world = World()
    for address, code in case["contracts"].items():
        program = avm.Program(bytes.fromhex(code), **rules.arguments)
        world.contracts[as_field(int(address, 16))] = Contract(
            as_field(1), SENDER, SENDER, program, as_field(IMMUTABLES)
        )
    calldata = b"".join(map(as_field, case["calldata"]))
    return execute(machine_for(avm, world), calldata, l2_gas=GAS, l2_gas_limit=GAS)


@every
def test_points_and_copies_are_those_of_the_native_machine(avm: ModuleType, data_directory: Path) -> None:
    seen: Counter[str] = Counter()
    for line in gzip.decompress((data_directory / "release-5" / "machine.jsonl.gz").read_bytes()).splitlines():
        case = json.loads(line)
        outcome = outcome_of(avm, case, FIVE.machine)
        returned = [int.from_bytes(value, "big") for value in split(outcome.output)]
        expected = [int(text, 16) for text in case["returns"]]
        assert (outcome.success, returned, outcome.message) == (case["success"], expected, case["message"]), case["id"]
        assert GAS - outcome.l2_gas_left == case["l2Gas"], case["id"]
        seen[case["id"].split("-")[0]] += 1
    assert seen == {"ecadd": 81, "calldatacopy": 36, "returndatacopy": 36}


@every
def test_the_same_bytes_are_other_instructions_in_release_4(avm: ModuleType) -> None:
    setup = b"".join(put(place, FF, 0) for place in range(10, 16))
    ecadd = assemble("ECADD", 10, 11, 12, 13, 14, 15, 20)
    five = outcome_of(avm, {"contracts": {"0x1000": (setup + ecadd).hex()}, "calldata": []}, FIVE.machine)
    four = outcome_of(avm, {"contracts": {"0x1000": (setup + ecadd).hex()}, "calldata": []}, FOUR.machine)
    assert five.message != four.message
    assert not four.success


@every
@pytest.mark.parametrize("missing", [1, 2, 4])
def test_a_shorter_addition_at_the_end_of_the_code_is_truncated(avm: ModuleType, missing: int) -> None:
    code = assemble("ECADD", 0, 0, 0, 0, 0, 0, 0)[: LAYOUTS[66].size - 4 - missing]
    outcome = outcome_of(avm, {"contracts": {"0x1000": code.hex()}, "calldata": []}, FIVE.machine)
    size = LAYOUTS[66].size - 4
    assert f"(instruction size: {size}, remaining: {size - missing})" in outcome.message


@every
def test_an_instance_has_a_fourth_member(avm: ModuleType) -> None:
    def outcome(member: int, rules: MachineRules) -> Any:
        code = put(0, FF, 0x1000) + assemble("GETCONTRACTINSTANCE", 0, 1, member) + put(3, U32, 1)
        case = {"contracts": {"0x1000": (code + assemble("RETURN", 3, 2)).hex()}, "calldata": []}
        return outcome_of(avm, case, rules)

    assert [outcome(member, FIVE.machine).success for member in range(5)] == [True, True, True, True, False]
    assert [outcome(member, FOUR.machine).success for member in range(5)] == [True, True, True, False, False]
    assert outcome(3, FIVE.machine).output == as_field(IMMUTABLES)
    assert outcome(4, FIVE.machine).message.endswith("Invalid member enum: 4")


@every
@pytest.mark.parametrize(("operation", "prefix"), [("CALLDATACOPY", "cd"), ("RETURNDATACOPY", "rd")])
def test_a_copy_that_leaves_memory_is_told_by_what_it_writes(avm: ModuleType, operation: str, prefix: str) -> None:
    code = put(0, U32, 3) + put(1, U32, 0) + put(2, U32, (1 << 32) - 1) + assemble(operation, 0, 1, 2, mode=1 << 4)
    case = {"contracts": {"0x1000": code.hex()}, "calldata": [1]}
    end = f"write_addr_upper_bound = {(1 << 32) + 2}"
    assert outcome_of(avm, case, FIVE.machine).message == (
        f"{prefix} copy failed: Attempting to write out of bounds memory: {end}"
    )
    assert outcome_of(avm, case, FOUR.machine).message == (
        f"{prefix} copy failed: Attempting to access out of bounds memory: "
        f"read_addr_upper_bound = {int(prefix == 'cd')} {end}"
    )


@every
@pytest.mark.parametrize("size", [1, 2, 6])
def test_what_a_copy_reads_beyond_memory_is_zero(avm: ModuleType, size: int) -> None:
    """A callee returns cells from the last one on, and so does a caller that gives calldata."""
    last = (1 << 32) - 1
    give = put(1, U32, last) + assemble("SET", 1, U64, 777, mode=1) + put(2, U32, size)
    callee = {
        "returned": give + assemble("RETURN", 2, 1, mode=1 << 2),
        "given": put(3, U32, 0) + put(4, U32, size) + assemble("CALLDATACOPY", 4, 3, 100) + assemble("RETURN", 4, 100),
    }
    for name, code in callee.items():
        call = (
            put(10, U32, 300_000) + put(11, U32, 1_000) + put(12, FF, 0x1001) + put(13, U32, size * (name == "given"))
        )
        call += give + assemble("CALL", 10, 11, 12, 13, 1, mode=1 << 8) + put(3, U32, 0)
        call += assemble("RETURNDATACOPY", 2, 3, 100) + assemble("RETURN", 2, 100)
        case = {"contracts": {"0x1000": call.hex(), "0x1001": code.hex()}, "calldata": []}
        five, four = outcome_of(avm, case, FIVE.machine), outcome_of(avm, case, FOUR.machine)
        assert (five.success, split(five.output)) == (True, [as_field(777)] + [as_field(0)] * (size - 1)), name
        assert size == 1 or split(four.output) != split(five.output), name


def test_the_rules_of_both_releases_are_what_the_machine_assumes() -> None:
    assert FOUR.machine.arguments == Rules()._asdict()
    assert FOUR.machine.point_gas == LAYOUTS[66].l2_gas
    assert PLENTY < GAS
