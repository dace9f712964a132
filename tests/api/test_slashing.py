"""The methods about offenses: what is found here, what another node's admin port knows, and both together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests.api.test_validators import Start
from tests.conftest import ADMIN_KEY, ADMIN_KEY_HASH
from tests.http_stand_in import HttpStandIn, answer_json

from fastnode.api.slashing import Slashing, methods
from fastnode.errors import Refused, ServerError, SettingError
from fastnode.outgoing.admin_questions import AdminQuestions
from fastnode.sentinel.offenses import Offense, OffenseType, RoundSize

SIZE = RoundSize(epochs=4, offset_rounds=2)
CALL = SimpleNamespace(view=SimpleNamespace(chain=SimpleNamespace(chain=SimpleNamespace(epoch_duration=4))))

OWN = Offense(b"\x01" * 20, 10, OffenseType.INACTIVITY, 4)
SHARED = Offense(b"\x02" * 20, 10, OffenseType.INACTIVITY, 5)
SHARED_ELSEWHERE = Offense(b"\x02" * 20, 99, OffenseType.INACTIVITY, 5)
THEIRS = Offense(b"\x03" * 20, 20, OffenseType.DATA_WITHHOLDING, 6)
THEIRS_LATER = Offense(b"\x03" * 20, 20, OffenseType.DUPLICATE_PROPOSAL, 40)
PAYLOAD = {"address": "0x" + "44" * 20, "timestamp": "1", "votes": "2", "round": "3", "slashes": []}


class FakeWatch:
    def offenses(self, _view: object, _wanted: object) -> list[Offense]:
        return [OWN, SHARED]


class OtherNode:
    """Takes the two words only, as the reference node does."""

    def __init__(self, error: Refused | None = None, answer: Any = None) -> None:
        self.asked: list[tuple[str, list[Any]]] = []
        self._error = error
        self._answer = answer

    def ask(self, method: str, parameters: Sequence[Any]) -> Any:
        self.asked.append((method, list(parameters)))
        if self._error is not None:
            raise self._error
        if self._answer is not None:
            return self._answer
        if method == "nodeAdmin_getSlashPayloads":
            return [PAYLOAD]
        assert parameters[0] in ("all", "current")
        return [item.to_json() for item in (SHARED_ELSEWHERE, THEIRS, THEIRS_LATER)]


def asked(slashing: Slashing, name: str, *parameters: object) -> Any:
    handler: Callable[..., bytes] = next(method.handler for method in methods(slashing) if method.name == name)  # type: ignore[assignment]
    return orjson.loads(handler(CALL, *parameters))


def offenses(watch: FakeWatch | None, other: OtherNode | None, wanted: int | str) -> Any:
    return asked(Slashing(watch, other, SIZE), "nodeAdmin_getSlashOffenses", wanted)  # type: ignore[arg-type]


def as_json(*items: Offense) -> list[dict[str, Any]]:
    return [item.to_json() for item in items]


def test_without_another_node_the_own_offenses_are_shown() -> None:
    assert offenses(FakeWatch(), None, "all") == as_json(OWN, SHARED)


@pytest.mark.parametrize("word", ["all", "current"])
def test_what_another_node_knows_is_joined_and_the_own_amount_counts(word: str) -> None:
    other = OtherNode()
    assert offenses(FakeWatch(), other, word) == as_json(OWN, SHARED, THEIRS, THEIRS_LATER)
    assert other.asked == [("nodeAdmin_getSlashOffenses", [word])]


def test_of_another_nodes_offenses_those_of_the_round_are_taken() -> None:
    assert offenses(None, OtherNode(), 3) == as_json(SHARED_ELSEWHERE, THEIRS)
    assert offenses(None, OtherNode(), 4) == as_json(THEIRS_LATER)
    assert offenses(None, OtherNode(), 0) == []
    assert offenses(FakeWatch(), OtherNode(), 4) == as_json(OWN, SHARED, THEIRS_LATER)


def test_who_does_not_look_itself_hands_the_question_on() -> None:
    assert offenses(None, OtherNode(), "current") == as_json(SHARED_ELSEWHERE, THEIRS, THEIRS_LATER)
    assert asked(Slashing(None, OtherNode(), SIZE), "nodeAdmin_getSlashPayloads") == [PAYLOAD]


def test_where_votes_are_tallied_a_question_for_payloads_is_refused() -> None:
    other = OtherNode()
    slashing = Slashing(FakeWatch(), other, SIZE, lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ServerError, match=r"^Tally slashing model does not support slash payloads$") as failure:
        asked(slashing, "nodeAdmin_getSlashPayloads")
    assert failure.value.data == {"code": "NO_SLASH_PAYLOADS"}
    assert other.asked == []


def test_where_payloads_are_voted_on_those_of_the_round_are_shown() -> None:
    slashing = Slashing(FakeWatch(), None, SIZE, lambda: [PAYLOAD])  # type: ignore[arg-type]
    assert asked(slashing, "nodeAdmin_getSlashPayloads") == [PAYLOAD]


def test_an_error_of_the_other_node_is_passed_on_or_leaves_the_own_offenses(caplog: pytest.LogCaptureFixture) -> None:
    broken = OtherNode(Refused("Slasher client not enabled"))
    with pytest.raises(Refused, match="Slasher client not enabled"):
        offenses(None, broken, "all")
    assert offenses(FakeWatch(), broken, "all") == as_json(OWN, SHARED)
    assert caplog.messages == ["only the own offenses are shown"]


@pytest.mark.parametrize("answer", [{}, [1], [{"validator": "0x"}], "text", [SHARED.to_json() | {"offenseType": 77}]])
def test_an_answer_that_is_none_is_an_error_or_leaves_the_own_offenses(answer: Any) -> None:
    other = OtherNode(answer=answer)
    with pytest.raises(ServerError, match="is not understood"):
        offenses(None, other, "all")
    assert offenses(FakeWatch(), other, "all") == as_json(OWN, SHARED)


def test_without_either_an_error_says_so() -> None:
    for name, parameters in (("nodeAdmin_getSlashOffenses", ["all"]), ("nodeAdmin_getSlashPayloads", [])):
        with pytest.raises(ServerError, match=r"^Slasher client not enabled$") as failure:
            asked(Slashing(), name, *parameters)
        assert failure.value.data == {"code": "SLASHER_NOT_ENABLED"}


# ---- over the wire -------------------------------------------------------------------------------------


def admin_port(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Asks for the key, answers with one offense."""
    if handler.headers.get("x-api-key") != ADMIN_KEY:
        error = {"code": -32000, "message": "Unauthorized"}
        answer_json(handler, {"jsonrpc": "2.0", "id": None, "error": error}, 401)
    else:
        answer_json(handler, {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": as_json(THEIRS)})


@pytest.fixture(scope="module")
def other_port() -> Iterator[str]:
    with HttpStandIn(admin_port) as server:
        yield server.url


def test_another_admin_port_is_asked_with_its_key(other_port: str) -> None:
    questions = AdminQuestions(other_port, ADMIN_KEY)
    try:
        assert questions.ask("nodeAdmin_getSlashOffenses", ["all"]) == as_json(THEIRS)
    finally:
        questions.close()
        questions.close()


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_wrong_key_is_an_error_and_no_answer(other_port: str, key: str | None) -> None:
    questions = AdminQuestions(other_port, key)
    try:
        with pytest.raises(Refused) as failure:
            questions.ask("nodeAdmin_getSlashOffenses", ["all"])
        assert "127.0.0.1" not in str(failure.value.message)
    finally:
        questions.close()


def test_an_admin_port_that_does_not_answer_is_an_error_without_its_address() -> None:
    questions = AdminQuestions("http://127.0.0.1:1", ADMIN_KEY)
    try:
        with pytest.raises(Refused, match=r"^The other node's admin port does not answer; try again later$"):
            questions.ask("nodeAdmin_getSlashOffenses", ["all"])
    finally:
        questions.close()


@pytest.mark.parametrize("url", ["", "host:8880", "ftp://host", "http://", "http://host:0x1"])
def test_an_address_or_a_key_that_is_none_stops_the_start_and_is_not_repeated(url: str) -> None:
    complaint = r"( .* is no http|: a URL begins with http|: the port of a URL is a whole number)"
    with pytest.raises(SettingError, match=rf"^--upstream-admin-url{complaint}"):
        AdminQuestions(url, None)
    with pytest.raises(SettingError, match=r"^--upstream-admin-api-key is no key$"):
        AdminQuestions("http://host", "sec\nret")


def test_a_node_shows_the_offenses_of_the_node_whose_key_it_has(
    start_node: Start, short_chain: Path, other_port: str
) -> None:
    for sentinel in ("false", "true"):
        node = start_node(
            "--chain-file",
            short_chain,
            "--upstream-admin-url",
            other_port,
            SENTINEL_ENABLED=sentinel,
            SVC_UPSTREAM_ADMIN_API_KEY=ADMIN_KEY,
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        ).wait_until_serving()
        assert node.call_admin("nodeAdmin_getSlashOffenses", "all")["result"] == as_json(THEIRS)
        assert node.call_admin("nodeAdmin_getSlashOffenses", 3)["result"] == as_json(THEIRS)
        assert node.call_admin("nodeAdmin_getSlashOffenses", 9)["result"] == []
        assert node.stop() == 0
        assert ADMIN_KEY not in node.log.read_text()
