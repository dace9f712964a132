"""Simulating transactions."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.mempool.pool import NOT_READY
from fastnode.values.choices import BOOLEAN
from fastnode.values.refusal import Reject, describe
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import ValueType

if TYPE_CHECKING:
    from fastnode.protocol.tx import Tx
    from fastnode.public_execution.service import Simulation

__all__ = ["methods"]


class Overrides(ValueType):
    """Storage and contracts that a simulation of 5.x is to find instead of those that are there.  Gives those that are
    named."""

    __slots__ = ()

    name = "SimulationOverrides"
    expects = "an object with publicStorage (an array) and contracts (an object), or one of them"

    def from_json(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(value)
        given = {name: value[name] for name in _OVERRIDES if value.get(name) is not None}
        for name, members in given.items():
            if not isinstance(members, _OVERRIDES[name]):
                raise Reject(f"must be {_KINDS[name]}, got {describe(members)}", f".{name}")
        return {name: members for name, members in given.items() if members}

    def schema(self) -> Schema:
        kinds: dict[str, Schema] = {
            "publicStorage": {"type": ["array", "null"]},
            "contracts": {"type": ["object", "null"]},
        }
        return object_of(kinds)


_OVERRIDES: Final[Mapping[str, type]] = {"publicStorage": list, "contracts": dict}
_KINDS: Final = {"publicStorage": "an array", "contracts": "an object"}
OVERRIDES: Final = Overrides()


class SimulationMethods:
    """``simulation`` None: the method says that the node is not ready."""

    def __init__(self, simulation: Simulation | None) -> None:
        self._simulation = simulation

    def decode(
        self,
        context: Context,
        value: dict[str, Any],
        skip_fee_enforcement: bool | None,
        overrides: Mapping[str, Any] | None = None,
    ) -> tuple[Tx, bool]:
        """Begins to hash, so that transactions that wait for their turn are hashed together meanwhile."""
        if overrides:
            raise ServerError(
                f"overrides (parameter 3) are not applied here, as no node of release 5.x was at hand to compare with: "
                f"{', '.join(overrides)}",
                data={"code": "NO_OVERRIDES"},
            )
        if self._simulation is None:
            raise ServerError(NOT_READY)
        return decode_tx(context, value), bool(skip_fee_enforcement)

    def simulate(self, context: Context, tx: Tx, skip_fee_enforcement: bool) -> bytes:
        assert self._simulation is not None
        return self._simulation.simulate(
            tx, context.view, skip_fee_enforcement=skip_fee_enforcement, asker=context.allowance.party
        )


def methods(simulation: Simulation | None, threads: Executor | None = None) -> list[Method]:
    """node_simulatePublicCalls over the node's simulations, in ``threads`` (None: in those of all requests)."""
    handlers = SimulationMethods(simulation)
    parameters = (Parameter("tx", TX), Parameter("skipFeeEnforcement", BOOLEAN, optional=True))
    overrides = Parameter("overrides", OVERRIDES, optional=True)
    return [
        Method(
            name="node_simulatePublicCalls",
            summary="Run the public part of a transaction on the newest state without including it.",
            prepare=handlers.decode,
            handler=handlers.simulate,
            in_thread=True,
            waits=True,
            threads=threads,
            five=Signature("PublicSimulationOutput", (*parameters, overrides)),
            **common("PublicSimulationOutput", *parameters),
        ),
    ]
