"""Answers to ``GET /`` of the admin port and below it, with and without the key."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import pytest
from tests.status_page.conftest import LAST_BLOCK

from fastnode.errors import Refused
from fastnode.http.messages import Response
from fastnode.serving.api_key import ApiKeyGuard
from fastnode.status_page import files, pages
from fastnode.status_page.files import NAMES, Document
from fastnode.status_page.overview import Overview
from fastnode.status_page.pages import StatusPage, is_link, open_paths

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


def test_without_the_key_the_page_and_its_files_do_not_depend_on_the_chain(
    site: Any, start_site: Callable[..., Any], sample_chain: Path
) -> None:
    other = start_site(sample_chain, admin_api_key_hash="0" * 64)
    for path in sorted(open_paths()):
        name = path.decode().lstrip("/")
        assert site.get(name, key=None)[2] == other.get(name, key=None)[2]


def data_in(page: bytes) -> Any:
    """Data that came with the page; None if it has to ask."""
    found = re.search(rb'<script id="first" type="application/json">(.*?)</script>', page, re.DOTALL)
    return None if found is None else orjson.loads(found[1])


def test_the_page_comes_with_its_first_numbers_for_those_who_may_see_them(site: Any, open_site: Any) -> None:
    expected = site.json("status-page/overview").keys()
    assert data_in(site.get("", key=None)[2]) is None
    for page in (site.get("")[2], open_site.get("", key=None)[2]):
        first = data_in(page)
        assert first.keys() == expected
        assert first["chain"]["tips"]["proposed"]["block"] == LAST_BLOCK


def test_no_text_in_the_first_numbers_ends_their_block() -> None:
    text = "</script><script>1</script><!-- <script> & \u2028"
    page = Document(shows_node=True).respond({}, orjson.dumps({"text": text})).body
    assert isinstance(page, bytes)
    assert data_in(page) == {"text": text}
    assert page.count(b"<script>") == 0


def test_a_page_that_finds_no_room_for_its_numbers_asks_for_them(
    open_site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, *, after: int = 0) -> bytes:
        raise Refused("too many wait")

    monkeypatch.setattr(Overview, "render", refuse)
    status, _, body = open_site.get("")
    assert (status, data_in(body)) == (HTTPStatus.OK, None)
    assert open_site.get("status-page/overview")[0] == HTTPStatus.SERVICE_UNAVAILABLE


def names_in(page: bytes) -> set[str]:
    """Paths of files that the page names."""
    return set(re.findall(r'(?:href|src)="(status-page/[^"]+)"', page.decode()))


def test_files_that_the_page_names_are_kept_for_ever_and_others_never(site: Any) -> None:
    named = names_in(site.get("", key=None)[2])
    assert {name.rpartition("/")[2] for name in named} == {"icon.svg", "page.css", "elements.js", "page.js"}
    (folder,) = {name.rpartition("/")[0] for name in named}
    kept = [name.rpartition("/")[2] for name in map(bytes.decode, open_paths()) if name.startswith(f"/{folder}/")]
    assert len(kept) == len(NAMES)
    for name in kept:
        _, headers, body = site.get(f"{folder}/{name}", key=None)
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert headers["Vary"] == "Accept-Encoding"
        _, headers, same = site.get(f"status-page/{name}", key=None)
        assert (headers["Cache-Control"], same) == ("no-store", body)
    assert site.get(f"status-page/{'0' * 16}/page.js")[0] == HTTPStatus.NOT_FOUND


def test_the_folder_of_the_files_is_named_by_all_that_is_in_them() -> None:
    contents = {name: b"text of " + name.encode() for name in NAMES}
    folders = {files._digest(contents)}
    for name, content in contents.items():
        folders.add(files._digest(contents | {name: content + b" "}))
    first, second = NAMES[:2]  # the same bytes, told apart at another place
    moved = {first: contents[first] + contents[second][:1], second: contents[second][1:]}
    folders.add(files._digest(contents | moved))
    assert len(folders) == len(NAMES) + 2


@pytest.mark.parametrize("path", ["", "status-page/page.js", "status-page/overview", "status-page/block?number=1"])
def test_who_asks_for_gzip_gets_it(open_site: Any, path: str) -> None:
    async def fetch(accepted: str) -> tuple[str | None, bytes]:
        headers = {"Accept-Encoding": accepted}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(open_site.url + path, headers=headers) as answer,
        ):
            assert answer.headers["Vary"] == "Accept-Encoding"
            return answer.headers.get("Content-Encoding"), await answer.read()

    coding, packed = open_site.run(fetch("gzip, deflate, br, zstd"))
    _, plain = open_site.run(fetch("identity"))
    assert coding == "gzip"
    assert len(packed) < len(plain)
    assert gzip.decompress(packed)[:9] == plain[:9]  # the time is behind that
    for other in ("identity", "br", "gzip;q=0", "br, zstd;q=0.5"):
        coding, body = open_site.run(fetch(other))
        assert coding is None
        assert body[:9] == plain[:9]


def test_no_answer_sets_a_cookie_or_may_be_framed_or_read_by_another_site_nor_data_be_kept(site: Any) -> None:
    for path in ("", "status-page/page.js", "status-page/page.css", *DATA, *names_in(site.get("")[2])):
        _, headers, _ = site.get(path)
        assert "Set-Cookie" not in headers
        assert "Access-Control-Allow-Origin" not in headers
        if path.count("/") < 2:  # else a file, which says nothing of the node
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


@pytest.mark.parametrize(
    ("target", "location"),
    [
        (b"/block/17", "../#find=17"),
        (b"/aztec/block/latest", "../#find=latest"),
        (b"/tx/0x0b0d", "../#find=0x0b0d"),
        (b"/address/0x0a60/", "../../#find=0x0a60"),
        (b"/address/0x0a60?tab=logs", "../#find=0x0a60"),
    ],
)
def test_links_of_other_explorers_lead_to_the_search(target: bytes, location: str) -> None:
    """Without a key: nothing in the answer is the node's."""
    page = StatusPage(None, cast(Any, None), lambda: None, knows_key=lambda headers: False)
    path = target.partition(b"?")[0]
    assert is_link(path, "/aztec")
    assert ApiKeyGuard(bytes(32), (), lambda path: is_link(path, "/aztec")).admits(b"GET", target, {})
    answer = page.on_get(b"/" + path.removeprefix(b"/aztec").strip(b"/"), target, {})
    assert isinstance(answer, Response)
    assert answer.status == HTTPStatus.FOUND
    assert f"Location: {location}\r\n".encode() in answer.fields


@pytest.mark.parametrize(
    "path", [b"/block/", b"/block", b"/block/1/2", b"/tx/%2e%2e", b"/blocks/1", b"/tx/" + b"1" * 81]
)
def test_other_paths_are_no_links(path: bytes) -> None:
    page = StatusPage(None, cast(Any, None), lambda: None, knows_key=lambda headers: False)
    assert not is_link(path)
    assert not ApiKeyGuard(bytes(32), (), is_link).admits(b"GET", path, {})
    assert page.on_get(path, path, {}) is None


def test_the_public_port_has_no_page(site: Any) -> None:
    async def fetch() -> int:
        async with aiohttp.ClientSession() as session, session.get(site.public_url) as answer:
            return answer.status

    assert site.run(fetch()) == HTTPStatus.METHOD_NOT_ALLOWED


def test_the_page_is_found_under_a_prefix_too(start_site: Callable[..., Any], short_chain: Any) -> None:
    site = start_site(short_chain, admin_api_key_hash="0" * 64, api_prefix="/node-1")
    assert b'data-sign-in="yes"' in site.get("node-1/", key=None)[2]
    assert site.get("node-1/status-page/page.js", key=None)[0] == HTTPStatus.OK
    assert site.get("node-1/status-page/overview", key=None)[0] == HTTPStatus.UNAUTHORIZED
