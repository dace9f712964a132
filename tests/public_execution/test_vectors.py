"""Every vector of public execution, error texts included."""

from __future__ import annotations

import pytest
from tests.public_execution.vectors import expected, globals_of, load, outcome, scenario, state_of, tx_of

#: Number of vectors in each file.
COUNTS = {
    "calls": 102,
    "classes": 6,
    "compute": 280,
    "deploy": 2,
    "fuzz": 2000,
    "gadgets": 119,
    "limits": 11,
    "misc": 97,
    "state": 206,
    "txfuzz": 450,
    "txs": 68,
}
#: Number of transactions in each scenario.  The sweeps call every public function of the reference's contracts.
SCENARIOS = {"scen_amm": 8, "scen_bulk": 1, "scen_token": 8, "sweep_contracts": 504, "sweep_test_contracts": 663}


@pytest.mark.parametrize("name", COUNTS)
def test_every_vector_has_the_outcome_of_the_reference(name: str) -> None:
    content = load(name)
    defaults = content["defaults"]
    assert len(content["vectors"]) == COUNTS[name]
    for vector in content["vectors"]:
        block = globals_of({**defaults["globals"], **vector.get("globals", {})})
        found = outcome(
            state_of(vector),
            tx_of(vector, defaults),
            block,
            skip_fee_enforcement=bool(vector.get("skipFeeEnforcement")),
            collect_debug_logs=vector.get("collectDebugLogs", True),
        )
        assert found == expected(vector, block), vector["name"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_tx_of_a_scenario_has_the_outcome_of_the_reference(name: str) -> None:
    count = 0
    for label, found, wanted in scenario(name):
        assert found == wanted, label
        count += 1
    assert count == SCENARIOS[name]
