"""Traces: a transaction is executed again where it happened, and what it did is told call by call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import Refused
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.public_execution.trace_room import TraceRoom
from fastnode.public_execution.tracing import TraceOptions
from fastnode.values.choices import BOOLEAN
from fastnode.values.field_elements import TX_HASH
from fastnode.values.numbers import Integer
from fastnode.values.refusal import refuse_other_members
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import ValueType, read_member

if TYPE_CHECKING:
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.mempool.known_txs import FoundTx
    from fastnode.protocol.tx import Tx
    from fastnode.public_execution.service import Simulation
    from fastnode.public_execution.tracer import Tracer

__all__ = ["STEPS_DEFAULT", "STEPS_MAX", "TRACE_OPTIONS", "kept_tx_methods", "methods"]

#: Steps in one answer: each has some 150 bytes.
STEPS_MAX: Final = 20_000
STEPS_DEFAULT: Final = 1_000

_NOT_HERE: Final = "This node does not execute public calls (--simulate-public-calls upstream): ask the one that does"
_BLOCK: Final = Integer(name="block number", minimum=1, accepts_text=True)
_FIRST: Final = Integer(name="number", minimum=0)
_LIMIT: Final = Integer(name="number", minimum=1, maximum=STEPS_MAX)


class TraceOptionsValue(ValueType):
    """``{opcodes, gasProfile}``: which steps are told, and whether stacks for flame graphs are."""

    __slots__ = ()

    name = "TraceOptions"
    expects = "an object with opcodes and gasProfile"

    def from_json(self, value: object) -> TraceOptions:
        if not isinstance(value, dict):
            raise self.refuse(value)
        refuse_other_members(value, ("opcodes", "gasProfile"))
        first, limit = _read_window(value.get("opcodes"))
        profile = value.get("gasProfile")
        return TraceOptions(
            first_step=first,
            steps_max=limit,
            with_gas_profile=profile is not None and read_member(BOOLEAN, profile, "gasProfile"),
        )

    def schema(self) -> Schema:
        window = object_of({"first": _FIRST.schema(), "limit": _LIMIT.schema()}, closed=True)
        opcodes: Schema = {"anyOf": [BOOLEAN.schema(), window]}
        return object_of({"opcodes": opcodes, "gasProfile": BOOLEAN.schema()}, closed=True)


def _read_window(value: object) -> tuple[int, int]:
    """First step and most steps of ``opcodes``: a switch, or a window of all that is executed."""
    if not isinstance(value, dict):
        return 0, STEPS_DEFAULT if value is not None and read_member(BOOLEAN, value, "opcodes") else 0
    refuse_other_members(value, ("first", "limit"), ".opcodes")
    first, limit = value.get("first"), value.get("limit")
    return (
        0 if first is None else read_member(_FIRST, first, "opcodes.first"),
        STEPS_DEFAULT if limit is None else read_member(_LIMIT, limit, "opcodes.limit"),
    )


TRACE_OPTIONS: Final = TraceOptionsValue()
_NO_OPTIONS: Final = TraceOptions()


def _room_of(context: Context) -> TraceRoom:
    """Room within what the response may still hold, and the memory of all requests."""
    return TraceRoom(max(0, context.bytes_left), context.allowance)


class _Handlers:
    """``simulation`` None: the node is not ready."""

    def __init__(
        self,
        simulation: Simulation | None,
        find: Callable[[bytes], FoundTx | None],
        artifacts: ArtifactStore | None,
    ) -> None:
        self._simulation = simulation
        self._given = None if simulation is None else simulation.tracer(find, artifacts)

    @property
    def _tracer(self) -> Tracer:
        if self._given is None:
            raise Refused(_NOT_HERE)
        return self._given

    def transaction(self, context: Context, tx_hash: bytes, options: TraceOptions | None) -> bytes | None:
        with _room_of(context) as room:
            return self._tracer.trace_transaction(
                context.view, tx_hash, options or _NO_OPTIONS, context.allowance.party, room
            )

    def block(self, context: Context, number: int, options: TraceOptions | None) -> bytes | None:
        with _room_of(context) as room:
            traces = self._tracer.trace_block(
                context.view, number, options or _NO_OPTIONS, context.allowance.party, room
            )
            return None if traces is None else context.array(traces)

    def decode(self, context: Context, value: dict[str, Any], options: TraceOptions | None) -> tuple[Tx, TraceOptions]:
        """In the thread of the request, while it waits for its turn."""
        return decode_tx(context, value), options or _NO_OPTIONS

    def call(self, context: Context, tx: Tx, options: TraceOptions) -> bytes:
        tracer = self._tracer
        assert self._simulation is not None
        self._simulation.check_gas(tx)
        with _room_of(context) as room:
            return tracer.trace_call(context.view, tx, options, context.allowance.party, room)


def kept_tx_methods(find_here: Callable[[bytes], FoundTx | None]) -> list[Method]:
    """The method of kept transactions.  ``find_here`` looks in this node alone: a question for what is kept costs no
    other node anything."""

    def kept(_context: Context, tx_hash: bytes) -> bytes | None:
        found = find_here(tx_hash)
        return None if found is None else found.content or found.tx.to_json_bytes()

    return [
        Method(
            name="fastnode_getKeptTx",
            summary="A transaction with its calldata, also when it is final, if this node keeps it.",
            handler=kept,
            in_thread=True,
            **common("Tx", Parameter("txHash", TX_HASH), may_be_absent=True),
        ),
    ]


def methods(
    simulation: Simulation | None = None,
    find: Callable[[bytes], FoundTx | None] = lambda _hash: None,
    threads: Executor | None = None,
    *,
    artifacts: ArtifactStore | None = None,
) -> list[Method]:
    """Traces over the node's simulations, in ``threads``.  ``find`` looks for a transaction wherever it may be;
    ``artifacts`` has names of contracts."""
    handlers = _Handlers(simulation, find, artifacts)
    options = Parameter("options", TRACE_OPTIONS, optional=True)
    running: Mapping[str, Any] = {"in_thread": True, "waits": True, "threads": threads}
    return [
        Method(
            name="fastnode_traceTransaction",
            summary="What a transaction did, call by call: it is executed again at its place in its block.",
            handler=handlers.transaction,
            **running,
            **common("TransactionTrace", Parameter("txHash", TX_HASH), options, may_be_absent=True),
        ),
        Method(
            name="fastnode_traceCall",
            summary="What a transaction would do on the newest state, call by call; it need not be proven.",
            prepare=handlers.decode,
            handler=handlers.call,
            **running,
            **common("TransactionTrace", Parameter("tx", TX), options),
        ),
        Method(
            name="fastnode_traceBlock",
            summary="What the transactions of a block did, call by call, in their order.",
            handler=handlers.block,
            **running,
            **common("TransactionTrace[]", Parameter("blockNumber", _BLOCK), options, may_be_absent=True),
        ),
    ]
