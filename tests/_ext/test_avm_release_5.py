"""What the machine does otherwise in release 5.x, as its native machine did it: points without flags, dearer copies."""

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

from fastnode._twins.avm_instructions import FF, LAYOUTS
from fastnode.protocol.releases import FIVE, FOUR, MachineRules

GAS = 6_540_000

every = pytest.mark.parametrize("avm", INTERPRETERS)


def outcome_of(avm: ModuleType, case: dict[str, Any], rules: MachineRules) -> Any:
    world = World()
    for address, code in case["contracts"].items():
        program = avm.Program(
            bytes.fromhex(code), copy_gas=rules.copy_gas, point_gas=rules.point_gas, point_flags=rules.point_flags
        )
        world.contracts[as_field(int(address, 16))] = Contract(as_field(1), SENDER, SENDER, program)
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


def test_the_rules_of_both_releases_are_what_the_machine_assumes() -> None:
    assert (FOUR.machine.copy_gas, FOUR.machine.point_gas, FOUR.machine.point_flags) == (3, LAYOUTS[66].l2_gas, True)
    assert PLENTY < GAS
