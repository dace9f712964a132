"""Transactions that go through a contract on their way, as some networks have one."""

from __future__ import annotations

from dataclasses import replace

from fastnode.publishing.fees import GAS_MAX
from fastnode.publishing.forwarding import forward_data, forwarded
from fastnode.publishing.multicall import Call, bundle
from fastnode.publishing.requests import Request, Success
from fastnode.sources.l1.propose_calls import MULTICALL3

FORWARDER, ROLLUP = b"\x0f" * 20, b"\x11" * 20
REQUEST = Request(what="it", calls=(Call(ROLLUP, b"\1" * 70),), success=Success(ROLLUP, ()), gas=630_000)


def test_the_call_data_are_those_that_the_published_node_writes() -> None:
    # forward(address,bytes) as viem writes it.
    assert forward_data(ROLLUP, bytes(range(70))).hex() == (
        "6fadcf72"
        "0000000000000000000000001111111111111111111111111111111111111111"
        "0000000000000000000000000000000000000000000000000000000000000040"
        "0000000000000000000000000000000000000000000000000000000000000046"
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
        "4041424344450000000000000000000000000000000000000000000000000000"
    )


def test_without_a_contract_on_the_way_a_request_stays_as_it_is() -> None:
    assert forwarded(REQUEST, None) is REQUEST


def test_several_calls_go_through_it_as_one_and_the_reasons_are_looked_for_in_the_calls() -> None:
    request = forwarded(REQUEST, FORWARDER)
    assert request.target == FORWARDER
    assert request.data == forward_data(MULTICALL3, bundle(REQUEST.calls))
    assert request.calls == REQUEST.calls
    assert request.success == REQUEST.success


def test_a_direct_call_goes_through_it_without_another_contract() -> None:
    request = forwarded(replace(REQUEST, is_direct=True), FORWARDER)
    assert (request.target, request.data) == (FORWARDER, forward_data(ROLLUP, b"\1" * 70))


def test_it_gets_gas_of_its_own_up_to_what_a_transaction_may_have() -> None:
    assert 651_000 > forwarded(REQUEST, FORWARDER).gas > REQUEST.gas * 64 // 63
    assert forwarded(replace(REQUEST, gas=GAS_MAX), FORWARDER).gas == GAS_MAX
