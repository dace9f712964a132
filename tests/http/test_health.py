"""Answers of /status, /livez and /readyz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tests.serving.sockets import request

from fastnode.http.health import Health, answer_probe

FINE = Health(components={"chain": None, "sync": None})
DEGRADED = Health(components={"chain": None, "sync": "no upstream answers"})
STARTING = Health(components={"chain": "no chain yet"}, not_ready="no chain yet")


@pytest.mark.parametrize("path", [b"/status", b"/livez", b"/readyz"])
def test_every_probe_of_a_sound_node_says_ok(path: bytes) -> None:
    assert answer_probe(path, FINE, as_json=False) == (200, b"OK")
    status, body = answer_probe(path, FINE, as_json=True)
    assert status == 200
    assert orjson.loads(body)["ok"] is True


def test_a_degraded_node_is_alive_and_ready_and_its_status_says_what_is_wrong() -> None:
    assert answer_probe(b"/livez", DEGRADED, as_json=False) == (200, b"OK")
    assert answer_probe(b"/readyz", DEGRADED, as_json=False) == (200, b"OK\nsync: no upstream answers")
    ready = {"ok": True, "failing": {"sync": "no upstream answers"}}
    assert orjson.loads(answer_probe(b"/readyz", DEGRADED, as_json=True)[1]) == ready
    assert answer_probe(b"/status", DEGRADED, as_json=False) == (503, b"no upstream answers")
    status, body = answer_probe(b"/status", DEGRADED, as_json=True)
    assert status == 503
    assert orjson.loads(body) == {
        "ok": False,
        "components": {"chain": {"ok": True}, "sync": {"ok": False, "reason": "no upstream answers"}},
    }


def test_a_node_that_cannot_serve_is_alive_and_not_ready() -> None:
    assert answer_probe(b"/livez", STARTING, as_json=False) == (200, b"OK")
    assert answer_probe(b"/readyz", STARTING, as_json=False) == (503, b"no chain yet")
    not_ready = {"ok": False, "reason": "no chain yet", "failing": {"chain": "no chain yet"}}
    assert orjson.loads(answer_probe(b"/readyz", STARTING, as_json=True)[1]) == not_ready


@pytest.mark.parametrize("path", ["/status", "/livez", "/readyz"])
def test_probes_answer_over_a_socket_in_the_form_that_is_accepted(serve: Callable[..., Any], path: str) -> None:
    running = serve(health=lambda: STARTING)
    with running.connect() as connection:
        plain = connection.ask(request("GET", path))
        assert plain.status == (200 if path == "/livez" else 503)
        assert plain.headers["content-type"].startswith("text/plain")
        as_json = connection.ask(request("GET", path, "Accept: text/html, application/json"))
        assert as_json.status == plain.status
        assert as_json.headers["content-type"].startswith("application/json")
        assert orjson.loads(as_json.body)["ok"] is (path == "/livez")
        assert connection.ask(request("POST", path, "Content-Length: 0")).status == 405


def test_what_an_operator_has_chosen_is_a_note_and_no_fault() -> None:
    paused = Health(components={"chain": None}, notes={"sync": "paused"})
    assert answer_probe(b"/status", paused, as_json=False) == (200, b"OK\nsync: paused")
    status, body = answer_probe(b"/status", paused, as_json=True)
    assert status == 200
    assert orjson.loads(body) == {"ok": True, "components": {"chain": {"ok": True}}, "notes": {"sync": "paused"}}
    assert answer_probe(b"/readyz", paused, as_json=False) == (200, b"OK"), "it serves what it has"


def test_the_status_says_why_a_sound_node_is_not_ready() -> None:
    behind = Health(components={"chain": None}, not_ready="the chain is not new enough yet: it is at block 5 of 900")
    status, text = answer_probe(b"/status", behind, as_json=False)
    assert (status, text) == (200, b"OK\nnot ready: the chain is not new enough yet: it is at block 5 of 900")
    assert orjson.loads(answer_probe(b"/status", behind, as_json=True)[1])["notReady"] == behind.not_ready
    assert answer_probe(b"/status", STARTING, as_json=False) == (503, b"no chain yet"), "it is said once"


def test_a_part_may_say_how_it_is_when_nothing_is_wrong() -> None:
    told = Health(components={"chain": None, "proofs": None}, states={"proofs": "bb ready: 3 valid"})
    assert answer_probe(b"/status", told, as_json=False) == (200, b"OK")
    body = orjson.loads(answer_probe(b"/status", told, as_json=True)[1])
    assert body["components"] == {"chain": {"ok": True}, "proofs": {"ok": True, "state": "bb ready: 3 valid"}}
