"""Addresses as they are counted, and their limits of connections."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http.client_connections import ConnectionCounts
from fastnode.values.client_network import most_crowded, network_of


@pytest.mark.parametrize(
    ("peer_name", "network"),
    [
        (("192.0.2.1", 5000), bytes([192, 0, 2, 1])),
        (("::ffff:192.0.2.1", 5000, 0, 0), bytes([192, 0, 2, 1])),
        (("2001:db8:1:2:3:4:5:6", 5000, 0, 0), bytes.fromhex("20010db800010002")),
        (("fe80::1%eth0", 5000, 0, 2), bytes.fromhex("fe80000000000000")),
        (("::1", 5000, 0, 0), bytes(8)),
        ("", None),
        ("/run/socket", None),
        (None, None),
        ((), None),
        (("no address", 1), None),
    ],
)
def test_an_address_counts_as_its_network(peer_name: Any, network: bytes | None) -> None:
    assert network_of(peer_name) == network


def test_hosts_of_one_ipv6_network_count_as_one() -> None:
    assert network_of(("2001:db8::1", 1, 0, 0)) == network_of(("2001:db8::ffff:1", 1, 0, 0))
    assert network_of(("2001:db8::1", 1, 0, 0)) != network_of(("2001:db8:0:1::1", 1, 0, 0))


def test_no_limit_takes_any_number_of_one_network() -> None:
    counts = ConnectionCounts(0)
    assert all(counts.enter(b"a") for _ in range(100))
    assert counts.by_network == {b"a": 100}
    for _ in range(100):
        counts.leave(b"a")
    assert len(counts) == 0


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)), st.sampled_from("abcde"))
def test_a_place_is_given_up_only_by_one_who_keeps_no_fewer_than_the_newcomer_has(
    counts: dict[str, int], newcomer: str
) -> None:
    crowded = most_crowded(counts, newcomer)
    own = counts.get(newcomer, 0)
    if crowded is None:
        assert all(count <= own + 1 for count in counts.values())
    else:
        assert counts[crowded] == max(counts.values())
        assert counts[crowded] - 1 >= own + 1


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([b"a", b"b", None])), max_size=60), st.integers(1, 4))
def test_counts_follow_who_comes_and_goes(steps: list[tuple[bool, bytes | None]], most: int) -> None:
    counts = ConnectionCounts(most)
    inside: list[bytes | None] = []
    for comes, network in steps:
        if comes:
            has_room = network is None or inside.count(network) < most
            assert counts.enter(network) == has_room
            if has_room:
                inside.append(network)
        elif network in inside:
            inside.remove(network)
            counts.leave(network)
        assert len(counts) == len({each for each in inside if each is not None})
