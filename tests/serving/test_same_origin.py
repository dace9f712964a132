"""The admin port without a key is not open to the pages of other sites."""

from __future__ import annotations

import pytest

from fastnode.serving.same_origin import SameOriginGuard

HOST = {b"host": b"127.0.0.1:8880"}


def admits(origin: bytes | None, host: dict[bytes, bytes] = HOST) -> bool:
    headers = dict(host) if origin is None else host | {b"origin": origin}
    return SameOriginGuard().admits(b"POST", b"/", headers)


def test_what_names_no_origin_is_admitted() -> None:
    assert admits(None)
    assert admits(None, {})


@pytest.mark.parametrize("origin", [b"http://127.0.0.1:8880", b"HTTP://127.0.0.1:8880", b"https://127.0.0.1:8880"])
def test_the_pages_of_this_port_are_admitted(origin: bytes) -> None:
    assert admits(origin)


@pytest.mark.parametrize(
    "origin",
    [
        b"https://evil.example",
        b"http://127.0.0.1",
        b"http://127.0.0.1:8881",
        b"http://127.0.0.1:8880.evil.example",
        b"null",
        b"",
        b"127.0.0.1:8880",
    ],
)
def test_the_pages_of_other_sites_are_not(origin: bytes) -> None:
    assert not admits(origin)


def test_without_a_host_no_page_is_of_this_port() -> None:
    assert not admits(b"http://127.0.0.1:8880", {})


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1:8880",
        b"10.1.2.3",
        b"[::1]:8880",
        b"[fe80::1]",
        b"localhost",
        b"LOCALHOST:8880",
        b"node.lan:8880",
        b"",
    ],
)
def test_an_address_localhost_or_a_name_of_the_operator_is_admitted(host: bytes) -> None:
    assert SameOriginGuard(["Node.lan"]).admits(b"POST", b"/", {b"host": host})


@pytest.mark.parametrize(
    "host",
    [
        b"rebound.evil.example:8880",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"evil.example#localhost",
        b"1.2.3.4@evil.example",
        b"node.lan",
        b"[evil.example]",
    ],
)
def test_a_name_of_another_domain_is_not_admitted(host: bytes) -> None:
    """For a browser that page and this port are of one origin, as long as both are called by that name."""
    guard = SameOriginGuard()
    assert not guard.admits(b"POST", b"/", {b"host": host, b"origin": b"http://" + host})
    assert not guard.admits(b"GET", b"/", {b"host": host})
    assert guard.admits(b"GET", b"/readyz", {b"host": host})


def test_probes_are_for_everybody() -> None:
    guard, headers = SameOriginGuard(), HOST | {b"origin": b"https://evil.example"}
    assert guard.admits(b"GET", b"/status?verbose", headers)
    assert not guard.admits(b"GET", b"/", headers)
    assert not guard.admits(b"POST", b"/status", headers)
