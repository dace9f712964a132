"""Results of calls: what is kept, for how long, and what is made at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serving.sockets import post

from fastnode.kernels import cached_responses, simple_request

VIEW = "the view"
HASH = bytes(31) + b"\x07"
HASH_TEXT = b'"0x%064x"' % 7


class Handlers:
    """Questions to direct handlers, and their answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def double(self, view: Any, number: int) -> bytes | None:
        self.asked.append((view, number))
        if number == 13:
            raise RuntimeError("not this one")
        return None if number == 0 else b"%d" % (2 * number)

    def fill(self, view: Any, number: int) -> bytes:
        return b"x" * number


def make(handlers: Handlers, *, bytes_max: int = 1 << 20) -> Any:
    results = cached_responses.CachedResponses(
        bytes_max=bytes_max,
        result_bytes_max=5000,
        find_block=lambda view, block_hash: 7 if block_hash == HASH else None,
    )
    results.add_method("node_double", keeps=True, shape=b"b", handler=handlers.double, items_max=0, read=None)
    results.add_method("node_redouble", keeps=False, shape=b"b", handler=handlers.double, items_max=0, read=None)
    results.add_method("node_fill", keeps=True, shape=b"b", handler=handlers.fill, items_max=0, read=None)
    results.add_method("node_bare", keeps=False, shape=b"", handler=lambda view: b"made", items_max=0, read=None)
    results.add_method("node_given", keeps=True, shape=None, handler=None, items_max=0, read=None)
    results.forget(106)
    return results


def ask(results: Any, name: str, params: bytes | None, view: Any) -> bytes | None:
    """The result of a call, empty if nothing was found; None if others have to make it."""
    reader = simple_request.SimpleRequests(
        head_bytes_max=600,
        headers_max=12,
        body_bytes_max=1 << 20,
        depth_max=8,
        batch_calls_max=5,
        coded_bytes_min=1 << 20,
        omits_absent=False,
        results=results,
        source=lambda: view,
        renew=lambda view: None,
        choose_coding=lambda accepted: None,
    )
    reader.set_head(b"", b"", b"")
    given = b"" if params is None else b',"params":%b' % params
    answers = reader.answer(post(b'{"id":1,"method":"%b"%b}' % (name.encode(), given)), 0, 1 << 20, view)
    if answers is None:
        return None
    return b"".join(answers if isinstance(answers, list) else [answers]).partition(b'"result":')[2][:-1]


def test_a_result_is_kept_when_it_is_asked_for_again() -> None:
    handlers = Handlers()
    results = make(handlers)
    for hits in (0, 0, 1, 2):  # it is kept when it has been asked for twice
        assert ask(results, "node_double", b"[21]", VIEW) == b"42"
        assert results.hit_count == hits
    assert handlers.asked == [(VIEW, 21)] * 2
    assert (results.hit_count, results.miss_count) == (2, 2)
    assert results.kept_bytes > 0
    results.forget(107)
    assert ask(results, "node_double", b"[21]", None) is None
    assert ask(results, "node_double", b'["latest"]', VIEW) == b"214"
    assert results.kept_bytes == 0


def test_a_result_that_is_not_kept_is_made_each_time() -> None:
    handlers = Handlers()
    results = make(handlers)
    for _ in range(3):
        assert ask(results, "node_redouble", b"[21]", VIEW) == b"42"
    assert len(handlers.asked) == 3
    results.keep("node_redouble", b"[21]", b"43")
    assert ask(results, "node_redouble", b"[21]", VIEW) == b"42"


def test_a_method_may_have_a_handler_for_calls_without_params() -> None:
    results = make(Handlers())
    for params in (None, b"[]", b"[ ]"):
        assert ask(results, "node_bare", params, VIEW) == b"made"
    assert ask(results, "node_bare", None, None) is None
    assert ask(results, "node_bare", b"[1]", VIEW) is None


def test_what_is_not_found_is_null() -> None:
    results = make(Handlers())
    for view in (VIEW, VIEW, None):
        assert ask(results, "node_double", b"[0]", view) == b"null"


def test_a_block_is_asked_for_by_its_number() -> None:
    handlers = Handlers()
    results = make(handlers)
    assert ask(results, "node_double", b"[%b]" % HASH_TEXT, VIEW) == b"14"
    assert ask(results, "node_double", b'["0x%064x"]' % 8, VIEW) is None
    assert handlers.asked == [(VIEW, 7)]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("node_unknown", b"[1]"), ("node_double", b"[13]"), ("node_double", b'["proven"]'), ("node_double", b"[]"),
        ("node_double", None), ("node_given", b"[1]"), ("node_fill", b"[5001]"), ("", b"[1]"), ("node_doubl", b"[1]"),
    ],
)  # fmt: skip
def test_the_rest_is_left_to_others(name: str, params: bytes | None) -> None:
    assert ask(make(Handlers()), name, params, VIEW) is None


def test_results_of_others_are_kept_by_the_text_of_their_params() -> None:
    results = make(Handlers())
    results.keep("node_given", None, b"bare")
    results.keep("node_given", b'["proven"]', b"1")
    results.keep("node_unknown", None, b"?")
    assert ask(results, "node_given", b"[ ]", None) == b"bare"
    assert ask(results, "node_given", None, None) == b"bare"
    assert ask(results, "node_given", b'["proven"]', None) == b"1"
    assert ask(results, "node_given", b'[ "proven"]', None) == b"1"  # written in another way
    results.keep("node_given", b"[\n]", b"barer")
    assert ask(results, "node_given", b"[]", None) == b"barer"
    long = b'["%b"]' % (b"x" * 8200)
    results.keep("node_given", long, b"1")
    assert ask(results, "node_given", long, None) is None


def test_what_is_asked_for_again_outlives_what_is_not() -> None:
    results = make(Handlers(), bytes_max=40_000)
    results.keep("node_given", b"[1]", b"wanted")
    results.keep("node_given", b"[2]", b"unwanted")
    for number in range(1000, 1200):
        for _ in range(2):
            assert ask(results, "node_fill", b"[%d]" % number, VIEW) is not None
        assert ask(results, "node_given", b"[1]", None) == b"wanted"
        assert results.kept_bytes <= 20_000
    assert ask(results, "node_given", b"[2]", None) is None
    assert ask(results, "node_fill", b"[1000]", None) is None
    results.keep("node_given", b"[3]", b"x" * 4900)  # more than its share
    assert ask(results, "node_given", b"[3]", None) is None
