"""Answers to ``GET /`` of the admin port and below it, with and without the key."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from fastnode.status_page import pages
from fastnode.status_page.pages import open_paths

DATA = ("status-page/overview", "status-page/find?q=1", "status-page/block?number=1")


def test_without_the_key_there_is_a_page_to_enter_it_and_nothing_else(site: Any) -> None:
    status, headers, body = site.get("", key=None)
    assert status == HTTPStatus.UNAUTHORIZED
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert b'data-sign-in="yes"' in body
    for path in DATA:
        status, headers, body = site.get(path, key=None)
        assert (status, headers["Content-Type"]) == (HTTPStatus.UNAUTHORIZED, "application/json; charset=utf-8")
        assert b"invalid or missing API key" in body


@pytest.mark.parametrize("key", ["", "another-key", "A-KEY-THAT-AN-OPERATOR-MADE"])
def test_another_key_opens_nothing(site: Any, key: str) -> None:
    assert site.get("", key=key)[0] == HTTPStatus.UNAUTHORIZED
    assert [site.get(path, key=key)[0] for path in DATA] == [HTTPStatus.UNAUTHORIZED] * len(DATA)


def test_with_the_key_there_is_the_page_and_its_data(site: Any) -> None:
    status, _, body = site.get("")
    assert status == HTTPStatus.OK
    assert b'data-sign-in="no"' in body
    assert [site.get(path)[0] for path in DATA] == [HTTPStatus.OK] * len(DATA)


def test_without_an_admin_key_everybody_gets_the_page(open_site: Any) -> None:
    status, _, body = open_site.get("", key=None)
    assert status == HTTPStatus.OK
    assert b'data-sign-in="no"' in body
    assert [open_site.get(path, key=None)[0] for path in DATA] == [HTTPStatus.OK] * len(DATA)


def test_the_page_and_its_files_do_not_depend_on_the_chain(site: Any, open_site: Any) -> None:
    for path in sorted(open_paths()):
        name = path.decode().lstrip("/")
        ours, theirs = site.get(name, key=None)[2], open_site.get(name, key=None)[2]
        assert ours.replace(b'data-sign-in="yes"', b'data-sign-in="no"') == theirs


def test_no_answer_sets_a_cookie_or_may_be_kept_or_framed_or_read_by_another_site(site: Any) -> None:
    for path in ("", "status-page/page.js", "status-page/page.css", *DATA):
        _, headers, _ = site.get(path)
        assert "Set-Cookie" not in headers
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy


def test_the_page_names_nothing_outside_and_has_no_inline_code(site: Any) -> None:
    for path in sorted(open_paths()):
        text = site.get(path.decode().lstrip("/"), key=None)[2].decode()
        outside = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
        assert "http:" not in outside, path
        assert "https:" not in outside, path
        assert "innerHTML" not in text, path
        assert "document.cookie" not in text, path
    page = site.get("", key=None)[2].decode()
    assert " on" + "click=" not in page
    assert "style=" not in page
    assert "<script>" not in page


def test_the_head_of_the_page_can_be_asked_for(open_site: Any) -> None:
    status, headers, body = open_site.get("", method="HEAD")
    assert (status, body) == (HTTPStatus.OK, b"")
    assert int(headers["Content-Length"]) > 1000


def test_other_verbs_are_told_what_there_is(open_site: Any) -> None:
    status, headers, _ = open_site.get("", method="PUT")
    assert (status, headers["Allow"]) == (HTTPStatus.METHOD_NOT_ALLOWED, "GET, HEAD, POST")


@pytest.mark.parametrize(
    "path",
    [
        "status-page/",
        "status-page/nothing.js",
        "status-page/../status-page/page.js%00",
        "status-page/block",
        "status-page/block?number=99999",
        "status-page/block?number=-1",
        "status-page/block?number=" + "9" * 400,
    ],
)
def test_what_is_not_there_is_not_found(site: Any, path: str) -> None:
    assert site.get(path)[0] == HTTPStatus.NOT_FOUND


def test_a_block_that_is_too_long_for_a_browser_is_refused(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ANSWER_BYTES_MAX", 500)
    status, _, body = site.get("status-page/block?number=1")
    assert status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert b"ask the public port" in body


def test_the_public_port_has_no_page(site: Any) -> None:
    async def fetch() -> int:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get(site.public_url) as answer:
            return answer.status

    assert site.run(fetch()) == HTTPStatus.METHOD_NOT_ALLOWED


def test_the_page_is_found_under_a_prefix_too(start_site: Callable[..., Any], short_chain: Any) -> None:
    site = start_site(short_chain, admin_api_key_hash="0" * 64, api_prefix="/node-1")
    assert b'data-sign-in="yes"' in site.get("node-1/", key=None)[2]
    assert site.get("node-1/status-page/page.js", key=None)[0] == HTTPStatus.OK
    assert site.get("node-1/status-page/overview", key=None)[0] == HTTPStatus.UNAUTHORIZED
