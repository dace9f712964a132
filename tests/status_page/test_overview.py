"""State of the node, as the status page is told."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from tests.status_page.conftest import KEY, LAST_BLOCK

from fastnode.log import log_facts
from fastnode.recent_blocks import RECENT_BLOCKS
from fastnode.status_page.log_tail import LINES_MAX, LogTail


def overview(site: Any, after: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = site.json(f"status-page/overview?after={after}")
    return answer


def test_tips_and_newest_blocks_are_those_that_the_public_port_names(site: Any) -> None:
    chain = overview(site)["chain"]
    tips = site.run(site.ask("node_getL2Tips"))
    assert chain["tips"]["proposed"]["block"] == tips["proposed"]["number"] == LAST_BLOCK
    assert chain["tips"]["proven"]["hash"] == tips["proven"]["block"]["hash"]
    assert chain["tips"]["finalized"]["checkpoint"] == tips["finalized"]["checkpoint"]["number"]
    numbers = [block["number"] for block in chain["blocks"]]
    assert numbers == list(range(LAST_BLOCK, -1, -1))
    assert len(numbers) <= RECENT_BLOCKS
    newest = site.run(site.ask("node_getBlock", LAST_BLOCK))
    assert chain["blocks"][0]["hash"] == newest["hash"]
    assert chain["blocks"][0]["txs"] == len(newest["body"]["txEffects"])
    assert chain["stateTip"] == LAST_BLOCK


def test_the_node_says_what_it_is_and_how_it_is(site: Any) -> None:
    from fastnode import __version__, kernels

    answer = overview(site)
    assert answer["software"]["version"] == __version__
    assert answer["software"]["kernel"] == kernels.poseidon2.kernel_name()
    assert answer["health"].pop("notes")["transactions"].startswith("refused: this node follows no other node")
    assert answer["health"] == {"notReady": None, "failing": {}}
    assert answer["sync"] is None
    assert answer["ingestion"]["blocks"] == LAST_BLOCK
    no_verdicts = {"valid": 0, "invalid": 0, "unknown": 0}
    proofs = {"required": False, "verifier": None, "limitation": None, "verdicts": no_verdicts}
    assert answer["pool"] == {"pending": 0, "limit": 1000, "rejections": {}, "lost": 0, "proofs": proofs}
    assert set(answer["ports"]) == {"public", "admin"}
    assert answer["startedAt"] <= answer["now"]


def test_calls_are_counted_by_method_and_unknown_names_together(site: Any) -> None:
    def counted(name: str) -> tuple[int, int]:
        """Calls and errors."""
        row = overview(site)["calls"]["methods"].get(name, [0])
        return sum(row[2:]), row[0]

    before, before_other = counted("node_getBlockNumber"), counted("other")
    site.run(site.ask("node_getBlockNumber", size=7))
    site.run(site.ask("<b>node_nothing</b>"))
    assert counted("node_getBlockNumber") == (before[0] + 7, before[1])
    assert counted("other") == (before_other[0] + 1, before_other[1] + 1)
    names = overview(site)["calls"]["methods"]
    assert "<b>node_nothing</b>" not in names


def test_looking_at_the_page_counts_as_no_call(site: Any) -> None:
    def total() -> int:
        return sum(sum(row[2:]) for row in overview(site)["calls"]["methods"].values())

    before = total()
    site.find("1")
    site.find(overview(site)["chain"]["blocks"][0]["hash"])
    assert total() == before


def test_a_node_without_meters_says_so(start_site: Any, short_chain: Any) -> None:
    site = start_site(short_chain, disable_admin_api_key=True, metrics_port=0)
    assert overview(site)["calls"] is None


def test_the_log_comes_once_and_without_the_key(site: Any) -> None:
    # The tail holds the newest lines only, and other tests of this process write some too.
    logging.getLogger("fastnode.test").info("a line to be seen")
    log = overview(site)["log"]
    assert any(line["text"] == "a line to be seen" for line in log)
    last = log[-1]["number"]
    logging.getLogger("fastnode.test").warning("something happened", extra=log_facts(number=7))
    fresh = overview(site, after=last)["log"]
    ours = [(line["level"], line["text"]) for line in fresh if line["text"].startswith("something")]
    assert ours == [("warning", "something happened  number=7")]
    assert all(line["number"] > last for line in fresh)
    later = overview(site, after=fresh[-1]["number"])["log"]
    assert not any(line["text"].startswith("something") for line in later)
    site.get("status-page/overview", key="a-wrong-key-of-somebody")
    everything = orjson.dumps(overview(site)).decode()
    assert KEY not in everything
    assert "a-wrong-key-of-somebody" not in everything


def test_the_answer_is_bounded_for_any_log() -> None:
    tail = LogTail()
    for number in range(3 * LINES_MAX):
        tail.handle(logging.LogRecord("fastnode.x", logging.INFO, "", 0, "line %d " + "x" * 10_000, (number,), None))
    lines = tail.lines_after(0)
    assert len(lines) == LINES_MAX
    assert (lines[0].number, lines[-1].number) == (2 * LINES_MAX + 1, 3 * LINES_MAX)
    assert max(len(line.text) for line in lines) < 1000


def test_a_line_of_the_tail_is_one_line_and_names_an_exception_without_its_traceback() -> None:
    tail = LogTail()
    try:
        raise KeyError("a secret")
    except KeyError as error:
        info = (KeyError, error, error.__traceback__)
    tail.handle(logging.LogRecord("fastnode.x", logging.ERROR, "", 0, "two\nlines", (), info))
    assert [line.text for line in tail.lines_after(0)] == ["two\\nlines  (KeyError)"]


def test_a_line_logged_with_no_exception_at_hand_is_a_line() -> None:
    tail = LogTail()
    logger = logging.getLogger("fastnode.x")
    with tail.attached():
        logger.error("failed", exc_info=False)
        logger.error("failed", exc_info=True)
    assert [line.text for line in tail.lines_after(0)] == ["failed", "failed"]


def test_a_node_that_has_stopped_takes_no_more_lines() -> None:
    tail = LogTail()
    logger = logging.getLogger("fastnode")
    with tail.attached():
        assert tail in logger.handlers
    assert tail not in logger.handlers


def test_upstreams_are_called_by_number(start_site: Any, short_chain: Any) -> None:
    followed = start_site(short_chain, disable_admin_api_key=True, api_prefix="/path-secret")
    address = followed.public_url.replace("http://", "http://user:pass-word@") + "path-secret?k=query-secret"
    nobody = "http://user:pass-word@127.0.0.1:1/path-secret?k=query-secret"
    site = start_site(None, disable_admin_api_key=True, upstream_url=(nobody, address))
    answer = overview(site)
    assert answer["sync"]["lagBlocks"] == 0
    upstreams = {upstream["name"]: upstream["state"] for upstream in answer["sync"]["upstreams"]}
    assert upstreams == {"upstream 1": "unavailable", "upstream 2": "healthy"}
    text = orjson.dumps(answer).decode()
    assert "upstream unavailable" in text
    assert not any(secret in text for secret in ("pass-word", "path-secret", "query-secret"))
