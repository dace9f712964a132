"""Traces of the recorded transactions: what they tell adds up to what the blocks have."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests._ext.avm_programs import assemble, put
from tests.mempool.recorded import recorded_tx, recordings
from tests.public_execution.hostile import PROGRAMS, many_calls
from tests.public_execution.made import ADDRESS, ENDLESS_LOOP, tx_running

from fastnode._twins.avm_instructions import U32
from fastnode.errors import ExecutionLimitExceeded, NodeBusy, Refused
from fastnode.kernels import USING_TWINS
from fastnode.mempool.clock import SlotClock
from fastnode.protocol.fields import field_texts, hex_text
from fastnode.protocol.header import GasFees
from fastnode.public_execution import trace_answers, tracing
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions
from fastnode.public_execution.trace_room import MEMORY_BYTES_MAX, TEXT_BYTES_MAX, TraceRoom
from fastnode.public_execution.tracer import FoundTx, Tracer
from fastnode.public_execution.tracing import TraceOptions
from fastnode.view import View

#: The first blocks set the network up; what was sent for them is not recorded.
FIRST_RECORDED_BLOCK = 6
STRIDE = 8 if USING_TWINS else 1
CLOCK = SlotClock(genesis_time=1795300000, slot_duration=36, l1_slot_duration=12)
ALL = TraceOptions(steps_max=50_000, with_gas_profile=True)
PLAIN = TraceOptions()
MIB = 1 << 20


def recorded(tx_hash: bytes) -> FoundTx | None:
    return FoundTx(recorded_tx(hex_text(tx_hash)), "kept") if hex_text(tx_hash) in recordings() else None


@pytest.fixture
def simulator() -> LocalSimulator:
    return LocalSimulator(CLOCK, lambda view: GasFees(0, 10_300_000), SimulationOptions(timeout_s=60))


@pytest.fixture
def tracer(simulator: LocalSimulator) -> Tracer:
    return Tracer(simulator, recorded)


def entries(call: dict[str, Any], *, only_kept: bool = True) -> Iterator[dict[str, Any]]:
    """Events of a call and of those nested in it, in order; ``only_kept``: those that were not undone."""
    for entry in call["entries"]:
        if entry["event"] != "call":
            yield entry
        elif entry["success"] or not only_kept:
            yield from entries(entry, only_kept=only_kept)


def kept_entries(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Events that the calls left behind: nothing of app logic or teardown where the transaction reverted."""
    phases = ("setup", "app", "teardown") if trace["revertCode"] == 0 else ("setup",)
    if trace["revertCode"] == 1:
        phases = ("setup", "teardown")
    return [entry for call in trace["calls"] if call["phase"] in phases and call["success"] for entry in entries(call)]


def texts(entries: list[dict[str, Any]], kind: str, member: str) -> list[Any]:
    return [entry[member] for entry in entries if entry["event"] == kind]


def test_traces_of_all_recorded_transactions_add_up_to_what_their_blocks_have(view: View, tracer: Tracer) -> None:
    traced = with_calls = steps = 0
    for number in range(FIRST_RECORDED_BLOCK, view.chain.tip_number + 1, STRIDE):
        block = view.chain.load_block(number)
        assert block is not None
        traces = tracer.trace_block(view, number, ALL)
        assert traces is not None
        for effect, text in zip(block.body.tx_effects, traces, strict=True):
            trace = orjson.loads(text)
            assert trace["effect"] == orjson.loads(orjson.dumps(effect.to_json()))
            assert (trace["blockNumber"], trace["txHash"]) == (number, hex_text(effect.tx_hash))
            require_consistent(trace)
            traced += 1
            with_calls += bool(trace["calls"])
            steps += trace["steps"]["taken"]
    assert STRIDE > 1 or (traced, with_calls > 50, steps > 10_000) == (132, True, True)


def require_consistent(trace: dict[str, Any]) -> None:
    """Find what was seen in the effects, in their order; gas and steps add up."""
    effect, kept = trace["effect"], kept_entries(trace)
    for kind, member, place in (
        ("noteHash", "uniqueNoteHash", "noteHashes"),
        ("nullifier", "siloedNullifier", "nullifiers"),
    ):
        emitted = texts(kept, kind, member)
        assert emitted == effect[place][len(effect[place]) - len(emitted) :]
    logs = [entry["fields"] for entry in kept if entry["event"] == "publicLog"]
    assert logs == [log["fields"] for log in effect["publicLogs"]]
    written = {write["leafSlot"] for write in effect["publicDataWrites"]}
    assert len(written) - 1 <= len(texts(kept, "storageWrite", "slot"))
    fee = trace["fee"]
    assert int(fee["daFee"]) + int(fee["l2Fee"]) == int(fee["transactionFee"]) == int(effect["transactionFee"], 16)
    require_gas(trace)
    assert len(trace["steps"]["list"]) == trace["steps"]["taken"]
    assert ("revertReason" in trace) == bool(trace["revertCode"])


def require_gas(trace: dict[str, Any]) -> None:
    phases = trace["gas"]["phases"]
    for unit, name in (("l2Gas", "l2"), ("daGas", "da")):
        used = sum(call["gasUsed"][unit] for call in trace["calls"])
        assert used == sum(phases[phase][unit] for phase in ("setup", "app", "teardown"))
        assert used == sum(int(line.rpartition(" ")[2]) for line in trace["gasProfile"][name])
        lost = sum(int(line.rpartition(" ")[2]) for line in trace["gasProfile"][name] if ";HALT " in line)
        assert used - lost == sum(step[unit] for step in trace["steps"]["list"])


def test_a_transaction_that_nobody_has_kept_shows_its_effects_and_invents_no_calls(
    view: View, simulator: LocalSimulator
) -> None:
    block = view.chain.load_block(view.chain.tip_number)
    assert block is not None
    tx_hash = block.body.tx_effects[0].tx_hash
    text = Tracer(simulator, lambda _: None).trace_transaction(view, tx_hash, ALL)
    assert text is not None
    trace = orjson.loads(text)
    assert "kept" in trace["missing"]
    assert "calls" not in trace
    assert trace["effect"] == orjson.loads(orjson.dumps(block.body.tx_effects[0].to_json()))


def test_a_transaction_that_gives_other_effects_than_its_block_has_is_refused(
    view: View, simulator: LocalSimulator
) -> None:
    hashes = [effect.tx_hash for effect in view.chain.load_block(view.chain.tip_number).body.tx_effects]  # type: ignore[union-attr]
    other = next(recorded_tx(text) for text in recordings() if bytes.fromhex(text[2:]) not in hashes)
    with pytest.raises(Refused, match=r"gives other effects|duplicate|nullifier"):
        Tracer(simulator, lambda _: FoundTx(other, "kept")).trace_transaction(view, hashes[0], PLAIN)


def test_an_unknown_transaction_has_no_trace(view: View, simulator: LocalSimulator) -> None:
    assert Tracer(simulator, lambda _: None).trace_transaction(view, bytes(32), PLAIN) is None


def test_one_that_waits_is_traced_on_the_newest_state(view: View, tracer: Tracer) -> None:
    fresh = next(
        text for text, row in recordings().items() if row["origin"] == "fresh" and row["tx"]["publicFunctionCalldata"]
    )
    trace = orjson.loads(tracer.trace_transaction(view, bytes.fromhex(fresh[2:]), ALL) or b"")
    assert (trace["status"], trace["blockNumber"]) == ("pending", view.chain.tip_number + 1)
    require_consistent(trace)


def test_a_window_of_the_steps_is_that_part_of_all_of_them(view: View, tracer: Tracer) -> None:
    tx = next(recorded_tx(text) for text, row in recordings().items() if row["tx"]["publicFunctionCalldata"])
    everything = orjson.loads(tracer.trace_transaction(view, tx.hash, ALL) or b"")["steps"]
    for first, count in ((0, 10), (7, 20), (everything["taken"] - 3, 50), (everything["taken"] + 5, 5)):
        options = TraceOptions(first_step=first, steps_max=count)
        steps = orjson.loads(tracer.trace_transaction(view, tx.hash, options) or b"")["steps"]
        assert steps["taken"] == everything["taken"]
        assert steps["list"] == everything["list"][first : first + count]


def test_calls_beyond_the_depth_and_number_of_a_trace_are_left_out_and_said(
    view: View, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "DEPTH_MAX", 3)
    calling_itself = (
        put(0, U32, 0)
        + put(1, U32, 6_000_000)
        + put(2, U32, 0)
        + put(4, U32, 0)
        + bytes((44, 0))
        + (3).to_bytes(2, "big")
        + bytes((0,))
        + ADDRESS
        + assemble("CALL", 1, 2, 3, 4, 0)
        + assemble("RETURN", 4, 0)
    )
    trace = orjson.loads(tracer.trace_call(view, tx_running(calling_itself), ALL))
    assert trace["isTruncated"]
    depth, call = 0, trace["calls"][0]
    while call:
        depth += 1
        call = next((entry for entry in call["entries"] if entry["event"] == "call"), None)
    assert depth == 3


def test_a_trace_has_the_time_of_a_simulation(view: View) -> None:
    simulator = LocalSimulator(CLOCK, lambda view: GasFees(0, 1), SimulationOptions(timeout_s=0.05))
    with pytest.raises(ExecutionLimitExceeded):
        Tracer(simulator, recorded).trace_call(view, tx_running(ENDLESS_LOOP, l2_gas=120_000_000), PLAIN)


def test_return_data_of_a_call_are_its_fields(view: View, tracer: Tracer) -> None:
    program = put(0, U32, 3) + put(1, U32, 1) + assemble("RETURN", 1, 0)
    trace = orjson.loads(tracer.trace_call(view, tx_running(program), ALL))
    (call,) = trace["calls"]
    assert call["returnData"] == field_texts((3).to_bytes(32, "big"))
    assert [step["operation"] for step in trace["steps"]["list"]] == ["SET", "SET", "RETURN"]


# ---- what a trace may take ----------------------------------------------------------------------


def peak_of(make: Callable[[], bytes]) -> tuple[bytes, int]:
    """A result, and the most that Python had allocated meanwhile beyond what it had before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        return made, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "options", [PLAIN, TraceOptions(steps_max=20_000, with_gas_profile=True)], ids=["plain", "all"]
)
def test_a_trace_is_truncated_before_it_takes_much_memory(
    view: View, tracer: Tracer, name: str, options: TraceOptions
) -> None:
    if USING_TWINS:
        pytest.skip("so much gas takes the readable machine minutes")
    program, gas = PROGRAMS[name]
    tx = tx_running(program, l2_gas=gas)
    text, peak = peak_of(lambda: tracer.trace_call(view, tx, options))
    trace = orjson.loads(text)
    assert trace["isTruncated"] or name == "inner calls"
    assert trace["calls"]
    assert len(text) < TEXT_BYTES_MAX + MIB
    assert peak < 2 * TEXT_BYTES_MAX + MEMORY_BYTES_MAX + 12 * MIB, f"{peak >> 20} MiB"


class Budget:
    """Memory of a request: so many bytes, and how many are taken."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.taken = 0

    def take(self, count: int) -> None:
        if count > self.left:
            raise NodeBusy(self.left)
        self.left -= count
        self.taken += count

    def release(self, count: int) -> None:
        self.left += count
        self.taken -= count


def test_a_trace_that_the_memory_budget_has_no_room_for_is_truncated_and_gives_back_what_it_took(
    view: View, tracer: Tracer
) -> None:
    tx = tx_running(many_calls(), l2_gas=3_000_000)
    sizes = []
    for left in (1 << 20, 4 << 20, 64 << 20):
        budget = Budget(left)
        with TraceRoom(memory=budget) as room:
            text = tracer.trace_call(view, tx, PLAIN, room=room)
            assert budget.taken > 0
        assert budget.left == left
        sizes.append(len(text))
        assert orjson.loads(text)["isTruncated"] == (left < 64 << 20)
    assert sizes[0] < sizes[1] < sizes[2]


def test_a_trace_has_no_more_than_the_answer_may_still_hold(view: View, tracer: Tracer) -> None:
    tx = tx_running(many_calls(), l2_gas=6_540_000)
    for limit in (0, 100_000, 1_000_000):
        with TraceRoom(text_bytes_max=limit) as room:
            text = tracer.trace_call(view, tx, ALL if limit == 0 else PLAIN, room=room)
        assert orjson.loads(text)["isTruncated"]
        assert len(text) < limit + 300_000, "calls, besides the effect"


def test_rendering_ends_with_the_time_of_the_trace(view: View, tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded by then is answered as far as it is rendered."""
    now = [0.0]
    monkeypatch.setattr(trace_answers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    plain = trace_answers.field_texts
    monkeypatch.setattr(
        trace_answers, "field_texts", lambda fields: (now.__setitem__(0, now[0] + 1e9), plain(fields))[1]
    )
    trace = orjson.loads(tracer.trace_call(view, tx_running(many_calls(), l2_gas=6_540_000), PLAIN))
    assert (trace["isTruncated"], trace["calls"]) == (True, [])


def test_the_traces_of_a_block_share_the_room_of_one(view: View, tracer: Tracer) -> None:
    """Each transaction is told, with as many of its calls as there is room for."""
    number = next(
        number
        for number in range(view.chain.tip_number, 0, -1)
        if len(view.chain.tx_hashes(number) or []) > 1 and number >= FIRST_RECORDED_BLOCK
    )
    whole = [orjson.loads(text) for text in tracer.trace_block(view, number, PLAIN) or ()]
    with TraceRoom(text_bytes_max=1) as room:
        cut = [orjson.loads(text) for text in tracer.trace_block(view, number, PLAIN, room=room) or ()]
    assert [trace["txHash"] for trace in cut] == [trace["txHash"] for trace in whole]
    assert [trace["effect"] for trace in cut] == [trace["effect"] for trace in whole]
    assert not any(trace["calls"] for trace in cut)
