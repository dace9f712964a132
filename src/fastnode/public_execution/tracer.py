"""Tracing a transaction where it happened: at its place in its block, or on the newest state.

    tracer = Tracer(simulator, find)
    tracer.trace_transaction(view, tx_hash, options)      # TransactionTrace as JSON

What precedes it in the block is not executed again: its effects are in the block.  Blocks have effects and no calldata,
so the transaction itself must be kept somewhere; where it is not, the answer has its effects and says why there are no
calls.  What is executed again must give the effects that the block has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.errors import DecodeError, Refused
from fastnode.mempool.known_txs import FoundTx
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import L1_TO_L2_MESSAGE_TREE_ID
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import hex_text
from fastnode.protocol.tx import Tx
from fastnode.public_execution.answers import revert_reason_json
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.results import ExecutedTx
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.trace_answers import trace_json
from fastnode.public_execution.trace_room import TraceRoom
from fastnode.public_execution.tracing import Trace, TraceOptions
from fastnode.public_execution.transaction import ExecutableTx

if TYPE_CHECKING:
    from fastnode.public_execution.simulation import Asker, LocalSimulator
    from fastnode.view import View

__all__ = ["Tracer"]

_NOT_KEPT: Final = (
    "neither this node nor one that it asks has kept the transaction, and blocks do not hold its calldata"
)


class _Place(NamedTuple):
    """The place of a mined transaction."""

    block: L2Block
    index_in_block: int

    @property
    def effect(self) -> TxEffect:
        return self.block.body.tx_effects[self.index_in_block]


class _Terms(NamedTuple):
    """What a request asks for, and what it may take."""

    options: TraceOptions
    asker: Asker | None
    room: TraceRoom
    #: Of its execution and its answer, by ``time.monotonic``.
    deadline: float


class Tracer:
    """Usable from any thread, within the limits of simulations.

    ``find`` looks for a transaction wherever this node may ask, None when nobody has it; ``artifacts`` has the names of
    contracts, None: those that come with fastnode.
    """

    def __init__(
        self,
        simulator: LocalSimulator,
        find: Callable[[bytes], FoundTx | None],
        artifacts: ArtifactStore | None = None,
    ) -> None:
        self._simulator = simulator
        self._find = find
        self._artifacts = artifacts or ArtifactStore(None)

    def _naming(self, view: View) -> Naming:
        return Naming(self._artifacts, view.chain, self._simulator.names.name_of)

    def trace_transaction(
        self,
        view: View,
        tx_hash: bytes,
        options: TraceOptions,
        asker: Asker | None = None,
        room: TraceRoom | None = None,
    ) -> bytes | None:
        """A transaction of a block, or one that waits, which is traced on the newest state.  None: nobody knows it.

        Refused when the state before its block is not there any more, or when what is kept does not give the effects
        of the block.
        """
        location = view.chain.tx_location(tx_hash)
        if location is None:
            found = self._find(tx_hash)
            if found is None:
                return None
            return self._on_newest_state(view, found, self._terms(options, asker, room), status="pending")
        block = view.chain.load_block(location.block_number)
        if block is None:
            return None
        return self._mined(view, _Place(block, location.index_in_block), self._terms(options, asker, room))

    def trace_block(
        self,
        view: View,
        number: int,
        options: TraceOptions,
        asker: Asker | None = None,
        room: TraceRoom | None = None,
    ) -> Iterator[bytes] | None:
        """The traces of a block's transactions in their order, which share the room and the time of one trace; None for
        a block that is not there."""
        block = view.chain.load_block(number)
        if block is None:
            return None
        terms = self._terms(options, asker, room)
        return (self._mined(view, _Place(block, index), terms) for index in range(len(block.body.tx_effects)))

    def trace_call(
        self, view: View, tx: Tx, options: TraceOptions, asker: Asker | None = None, room: TraceRoom | None = None
    ) -> bytes:
        """A transaction as node_simulatePublicCalls runs it, with its fee not enforced."""
        terms = self._terms(options, asker, room)
        return self._on_newest_state(view, FoundTx(tx, "request"), terms, status="simulated")

    def _terms(self, options: TraceOptions, asker: Asker | None, room: TraceRoom | None) -> _Terms:
        return _Terms(options, asker, room or TraceRoom(), self._simulator.deadline())

    # ---- mined ----------------------------------------------------------------------------------

    def _mined(self, view: View, place: _Place, terms: _Terms) -> bytes:
        block, effect = place.block, place.effect
        head: dict[str, Any] = {
            "txHash": hex_text(effect.tx_hash),
            "status": "mined",
            "blockNumber": block.number,
            "blockHash": hex_text(block.hash()),
            "txIndexInBlock": place.index_in_block,
        }
        found = self._find(effect.tx_hash)
        if found is None:
            return orjson.dumps(head | {"missing": _NOT_KEPT, "effect": effect.to_json()})
        tx = _executable(found.tx)
        trace = Trace(terms.options, terms.room)
        executed = self._execute_again(view, place, found, tx, trace, terms.asker, terms.deadline)
        head["source"] = found.source
        variables = block.header.global_variables
        return trace_json(trace, tx, executed, variables, head, self._naming(view), terms.deadline)

    def failure_of(self, view: View, tx_hash: bytes, asker: Asker | None = None) -> dict[str, Any] | None:
        """SimulationError of a transaction of a block that reverted; None if it did not, or nobody has kept it.

        Refused as for :meth:`trace_transaction`.
        """
        location = view.chain.tx_location(tx_hash)
        block = None if location is None else view.chain.load_block(location.block_number)
        if location is None or block is None:
            return None
        place = _Place(block, location.index_in_block)
        found = self._find(tx_hash) if place.effect.revert_code else None
        if found is None:
            return None
        tx = _executable(found.tx)
        return revert_reason_json(self._execute_again(view, place, found, tx, Trace(TraceOptions()), asker))

    def _execute_again(
        self,
        view: View,
        place: _Place,
        found: FoundTx,
        tx: ExecutableTx,
        trace: Trace,
        asker: Asker | None,
        deadline: float | None = None,
    ) -> ExecutedTx:
        """Execute a mined transaction at its place.  Refused when it gives other effects than its block has."""
        executor = _executor_at(view, place, self._simulator)
        executed = self._simulator.execute(executor, tx, asker=asker, trace=trace, deadline=deadline)
        if executed.effect != place.effect:
            raise Refused(
                f"Executing transaction {hex_text(place.effect.tx_hash)} again, as {found.source} has it, gives other "
                f"effects than block {place.block.number} has: it is not traced"
            )
        return executed

    # ---- on the newest state --------------------------------------------------------------------

    def _on_newest_state(self, view: View, found: FoundTx, terms: _Terms, *, status: str) -> bytes:
        tx = _executable(found.tx)
        block = self._simulator.next_block(view)
        executor = BlockExecutor(
            ViewState(view),
            block,
            options=self._simulator.options,
            programs=programs_of(view.chain.chain.release),
        )
        trace = Trace(terms.options, terms.room)
        executed = self._simulator.execute(
            executor,
            tx,
            skip_fee_enforcement=status == "simulated",
            asker=terms.asker,
            trace=trace,
            deadline=terms.deadline,
        )
        head = {
            "txHash": hex_text(executed.effect.tx_hash),
            "status": status,
            "blockNumber": block.block_number,
            "source": found.source,
        }
        return trace_json(trace, tx, executed, block, head, self._naming(view), terms.deadline)


def _executable(tx: Tx) -> ExecutableTx:
    try:
        return ExecutableTx.of(tx, accepts_overlong_logs=True)
    except DecodeError as error:
        raise Refused(f"The transaction cannot be executed: {error}") from None


def _executor_at(view: View, place: _Place, simulator: LocalSimulator) -> BlockExecutor:
    """An executor on the state that the transaction found: that before its block, with the messages of its checkpoint
    if they came with the block, and with what the block's transactions before it did."""
    block = place.block
    before = ViewState(view, block.number - 1)
    assert view.state is not None
    end = block.header.state.l1_to_l2_message_tree.next_available_leaf_index
    messages = [
        view.state.append_only_leaf(L1_TO_L2_MESSAGE_TREE_ID, index, block.number)
        for index in range(before.message_count, end)
    ]
    executor = BlockExecutor(
        before,
        block.header.global_variables,
        l1_to_l2_messages=messages,
        options=simulator.options,
        programs=programs_of(view.chain.chain.release),
    )
    for effect in block.body.tx_effects[: place.index_in_block]:
        executor.repeat(effect)
    return executor
