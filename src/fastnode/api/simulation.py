"""Simulating transactions."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import DecodeError, ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.mempool.pool import NOT_READY
from fastnode.protocol.contracts import ContractInstance
from fastnode.protocol.fields import hex_text
from fastnode.public_execution.overrides import Overrides, StorageOverride
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import BOOLEAN
from fastnode.values.field_elements import ADDRESS, FIELD
from fastnode.values.refusal import Reject, describe, refuse_other_members
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import ValueType, read_member, read_members

if TYPE_CHECKING:
    from fastnode.protocol.tx import Tx
    from fastnode.public_execution.service import Simulation

__all__ = ["methods"]


#: Each is hashed before the transaction runs.  A transaction writes to 64 slots at most.
STORAGE_OVERRIDES_MAX: Final = 1000
CONTRACT_OVERRIDES_MAX: Final = 100


class StorageOverrideParameter(ValueType):
    """A value of public storage.  Gives a StorageOverride."""

    __slots__ = ()

    name = "PublicStorageOverride"
    expects = "an object with contract, slot and value"
    members: ClassVar[Mapping[str, ValueType]] = {"contract": ADDRESS, "slot": FIELD, "value": FIELD}

    def from_json(self, value: object) -> StorageOverride:
        if not isinstance(value, dict):
            raise self.refuse(value)
        return StorageOverride(*read_members(self.members, value))

    def schema(self) -> Schema:
        members = {key: kind.schema() for key, kind in self.members.items()}
        return object_of(members, required=members, closed=True)

    def definitions(self) -> Mapping[str, Schema]:
        return {**ADDRESS.definitions(), **FIELD.definitions()}


class ContractOverridesParameter(ValueType):
    """Instances by their addresses.  Gives them as a tuple."""

    __slots__ = ()

    name = "ContractOverrides"
    expects = "an object of addresses with an instance each"

    def from_json(self, value: object) -> tuple[ContractInstance, ...]:
        if not isinstance(value, dict):
            raise self.refuse(value)
        if len(value) > CONTRACT_OVERRIDES_MAX:
            raise Reject(f"must have at most {CONTRACT_OVERRIDES_MAX} contracts, got {len(value)}")
        return tuple([_read_instance(address, content) for address, content in value.items()])

    def schema(self) -> Schema:
        instance = object_of({"instance": {"type": "object"}}, required=("instance",), closed=True)
        return {"type": "object", "additionalProperties": instance, "maxProperties": CONTRACT_OVERRIDES_MAX}


def _read_instance(key: str, content: object) -> ContractInstance:
    try:
        address = ADDRESS.from_json(key)
    except Reject:
        raise Reject(f"must have addresses as keys, got {describe(key)}") from None
    place = f".{hex_text(address)}"
    if not isinstance(content, dict) or "instance" not in content:
        raise Reject(f"must be an object with an instance, got {describe(content)}", place)
    refuse_other_members(content, ("instance",), place)
    try:
        instance = ContractInstance.from_json(content["instance"])
    except DecodeError as error:
        raise Reject(f"is no contract instance: {error}", f"{place}.instance") from None
    if instance.address != address:
        raise Reject(f"is the instance of {hex_text(instance.address)}", f"{place}.instance")
    return instance


class OverridesParameter(ValueType):
    """Storage and contracts that a simulation of 5.x is to find in place of those that are there.  Gives Overrides, or
    None where nothing is named."""

    __slots__ = ()

    name = "SimulationOverrides"
    expects = "an object with publicStorage (an array) and contracts (an object), or one of them"
    members: ClassVar[Mapping[str, ValueType]] = {
        "publicStorage": ArrayOf(StorageOverrideParameter(), STORAGE_OVERRIDES_MAX),
        "contracts": ContractOverridesParameter(),
    }

    def from_json(self, value: object) -> Overrides | None:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, self.members)
        given = [value.get(key) for key in self.members]
        read = [
            () if content is None else read_member(kind, content, key)
            for content, (key, kind) in zip(given, self.members.items(), strict=True)
        ]
        return Overrides(*read) if any(read) else None

    def schema(self) -> Schema:
        members = {key: {"anyOf": [kind.schema(), {"type": "null"}]} for key, kind in self.members.items()}
        return object_of(members, closed=True)

    def definitions(self) -> Mapping[str, Schema]:
        return StorageOverrideParameter().definitions()


OVERRIDES: Final = OverridesParameter()


class SimulationMethods:
    """``simulation`` None: the method says that the node is not ready."""

    def __init__(self, simulation: Simulation | None) -> None:
        self._simulation = simulation

    def decode(
        self,
        context: Context,
        value: dict[str, Any],
        skip_fee_enforcement: bool | None,
        overrides: Overrides | None = None,
    ) -> tuple[Tx, bool, Overrides | None]:
        """Begins to hash, so that transactions that wait for their turn are hashed together meanwhile."""
        if self._simulation is None:
            raise ServerError(NOT_READY)
        return decode_tx(context, value), bool(skip_fee_enforcement), overrides

    def simulate(self, context: Context, tx: Tx, skip_fee_enforcement: bool, overrides: Overrides | None) -> bytes:
        assert self._simulation is not None
        return self._simulation.simulate(
            tx,
            context.view,
            skip_fee_enforcement=skip_fee_enforcement,
            overrides=overrides,
            asker=context.allowance.party,
            require=context.require_bytes,
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
