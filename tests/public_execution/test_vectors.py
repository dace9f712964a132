"""Every vector of public execution, error texts included."""

from __future__ import annotations

import pytest
from tests.public_execution.vectors import expected, globals_of, load, outcome, scenario, state_of, tx_of

NAMES = (
    "calls",
    "classes",
    "compute",
    "deploy",
    "fuzz",
    "gadgets",
    "limits",
    "misc",
    "state",
    "txfuzz",
    "txs",
)
#: The sweeps call every public function of the reference's contracts.
SCENARIOS = ("scen_amm", "scen_bulk", "scen_token", "sweep_contracts", "sweep_test_contracts")


@pytest.mark.parametrize("name", NAMES)
def test_every_vector_has_the_outcome_of_the_reference(name: str) -> None:
    content = load(name)
    defaults = content["defaults"]
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
    for label, found, wanted in scenario(name):
        assert found == wanted, label
