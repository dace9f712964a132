"""The status page in a browser, as an operator uses it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.status_page.chromium import Chromium, Page
from tests.status_page.conftest import ASKED_BEFORE, KEY, LAST_BLOCK, LONG_CHAIN_BLOCKS

from fastnode.log import log_facts
from fastnode.status_page import overview

PHONE = (360, 740)
TABLET = (768, 1024)
DESKTOP = (1200, 1000)
IS_SHOWN = "!document.querySelector('#page').hidden"
#: Address of one of the page's own files, which has the hash of what is in it.
IS_FILE = re.compile(r"/status-page/[0-9a-f]{16}/")
#: Folder for screenshots of the documentation, if somebody wants new ones.
PICTURES = os.environ.get("FASTNODE_SCREENSHOTS")

FEE_JUICE = "0x" + "5".zfill(64)
#: The release of the accessibility checker.
AXE = "4.10.3"


@pytest.fixture
def visit(browser: Chromium, runner: asyncio.Runner) -> Callable[[Callable[[Page], Awaitable[None]]], None]:
    """Runs what somebody does in a fresh tab; afterwards its console must hold no error."""

    def run(scenario: Callable[[Page], Awaitable[None]]) -> None:
        async def in_a_tab() -> None:
            async with browser.page() as page:
                await page.resize(*DESKTOP)
                await scenario(page)
                assert page.errors == []

        runner.run(in_a_tab())

    return run


async def search(page: Page, text: str) -> str:
    """Type it, press Enter, read the result."""
    await page.evaluate("document.querySelector('#close-result').click(); document.querySelector('#query').focus()")
    await page.type(text)
    await page.press("Enter")
    await page.wait("!document.querySelector('#result').hidden")
    return await page.text("#result")


async def fits(page: Page, width: int) -> bool:
    # Not compared with innerWidth: a phone zooms out for a page that is too wide, and both grow.
    return bool(await page.evaluate(f"document.documentElement.scrollWidth <= {width}"))


# ---- the key --------------------------------------------------------------------------------------------


def test_the_page_asks_for_the_key_and_keeps_it_in_memory_only(site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(site.url)
        await page.wait("document.activeElement.id === 'key'")
        assert "Admin key" in await page.text("main")
        assert await page.text("#page") == ""
        await page.type("another-key")
        await page.press("Enter")
        await page.wait("document.querySelector('#sign-in-problem').textContent !== ''")
        assert await page.text("#page") == ""
        # The document itself and the answer to the wrong key.
        assert ["status of 401" in error for error in page.errors] == [True, True]
        page.errors.clear()

        await page.type(KEY)
        await page.press("Enter")
        await page.wait(IS_SHOWN)
        assert str(LAST_BLOCK) in await page.text("#tips")
        places = "document.cookie, {...localStorage}, {...sessionStorage}, location.href, document.body.innerHTML"
        assert KEY not in await page.evaluate(f"JSON.stringify([{places}])")
        assert not any(KEY in url for url in page.requested)

        await page.evaluate("location.hash = '#find=1'")
        await page.wait("!document.querySelector('#result').hidden")
        assert page.errors == []
        await page.click("#sign-out")
        await page.wait("document.activeElement?.id === 'key'")
        assert await page.text("#page") == ""
        assert await page.evaluate("document.querySelectorAll('#tips *, #log *, #result-body *').length") == 0
        page.errors.clear()

    visit(scenario)


# ---- what is shown --------------------------------------------------------------------------------------


def test_the_page_shows_the_node_and_loads_nothing_from_elsewhere(open_site: Any, visit: Any) -> None:
    # The tail holds the newest lines only, and other tests of this process write some too.
    logging.getLogger("fastnode.test").info("a line to be seen")

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.wait("document.querySelector('#health').textContent === 'ready'")
        assert "proposed" in await page.text("#tips")
        assert "kernel" in await page.text("#software")
        assert await page.evaluate("document.querySelectorAll('#blocks tr').length") == LAST_BLOCK + 1
        assert "a line to be seen" in await page.text("#log")
        assert "0 of 1,000" in await page.text("#pool")
        assert {url.rpartition("/status-page/")[0] or url for url in page.requested if url != "about:blank"} <= {
            open_site.url,
            open_site.url.rstrip("/"),
        }

    visit(scenario)


def test_the_verifier_of_proofs_is_shown_also_when_all_is_well(
    open_site: Any, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = open_site.node.core.mempool.judge
    usual = judge.status()
    verdicts = {"verdicts": {"valid": 1200, "invalid": 3, "unknown": 0}}
    well = {"verifier": "bb", "state": "ready", "checks": 2, "checkSeconds": 0.5, "waiting": 4, "lastTrouble": None}
    row = "[...document.querySelectorAll('#pool dd')].at(-1)"

    async def scenario(page: Page) -> None:
        for told, expected in (
            ({}, "not asked for by this network"),
            (verdicts | well, "bb ready: 1,200 valid, 3 invalid, 0 unknown, 250 ms each, 4 waiting"),
            (well | {"limitation": "there is no verifier program"}, "there is no verifier program"),
        ):
            monkeypatch.setattr(judge, "status", lambda told=told: usual | told)
            await page.open(open_site.url)
            await page.wait(IS_SHOWN)
            assert await page.evaluate(f"{row}.textContent") == expected

    visit(scenario)


def test_requests_are_drawn_as_they_come(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.wait("document.querySelector('#rate-chart').textContent.includes('No calls in this time')")
        await open_site.ask("node_getChainId", size=50)
        row = (
            "[...document.querySelectorAll('#calls tr')].find((row) => row.cells[0].textContent === 'node_getChainId')"
        )
        await page.wait(f"{row} !== undefined && Number({row}.cells[1].textContent) > 0")
        assert await page.evaluate(f"{row}.cells[3].textContent") not in ("", "–")
        assert await page.evaluate("document.querySelector('#rate-chart path').getAttribute('d').startsWith('M')")
        assert "calls per second now" in await page.text("#calls-note")
        await page.wait("document.querySelector('#latency-chart path')?.getAttribute('d').startsWith('M')")

    visit(scenario)


def test_a_node_that_is_gone_is_said_to_be_gone(start_site: Any, short_chain: Path, browser: Chromium) -> None:
    site = start_site(short_chain, disable_admin_api_key=True)

    async def scenario() -> None:
        async with browser.page() as page:
            await page.open(site.url)
            await page.wait(IS_SHOWN)
            await site.node.admin.stop(grace_seconds=0.1)
            await page.wait("!document.querySelector('#problem').hidden")
            assert await page.text("#health") == "no answer"
            assert str(LAST_BLOCK) in await page.text("#tips")

    site.run(scenario())


FROM_THE_NODE = (
    "performance.getEntriesByType('resource').filter((entry) => entry.transferSize)"
    ".map((entry) => entry.name.split('/').at(-1).split('?')[0])"
)


def test_the_first_numbers_wait_for_three_files_and_for_no_question(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert str(LAST_BLOCK) in await page.text("#tips")
        assert await page.evaluate(ASKED_BEFORE) == ["elements.js", "page.css", "page.js"]

    visit(scenario)


def test_a_page_that_was_seen_before_comes_without_its_files(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait("performance.getEntriesByName('complete').length")
        await page.open(open_site.url)
        await page.wait("performance.getEntriesByName('complete').length")
        assert set(await page.evaluate(FROM_THE_NODE)) <= {"overview"}

    visit(scenario)


def test_the_log_begins_at_its_end_and_stays_there(open_site: Any, visit: Any) -> None:
    for number in range(60):
        logging.getLogger("fastnode.test").info("line %s of many", number)
    is_at_end = "((log) => log.scrollTop > 0 && log.scrollHeight - log.scrollTop - log.clientHeight < 30)"

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(f"{is_at_end}(document.querySelector('#log'))")
        logging.getLogger("fastnode.test").info("one more line")
        await page.wait("document.querySelector('#log').innerText.includes('one more line')")
        assert await page.evaluate(f"{is_at_end}(document.querySelector('#log'))")

    visit(scenario)


#: Keeps back what is found for 3 until somebody calls goOn.
SLOW_FETCH = """
((fetch) => {
  window.fetch = async (...wanted) => {
    const answer = await fetch(...wanted);
    if (wanted[0].endsWith("find?q=3")) await new Promise((resolve) => { window.goOn = resolve; });
    return answer;
  };
})(window.fetch)
"""


def test_an_answer_that_comes_after_the_next_question_is_not_shown(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.evaluate(SLOW_FETCH)
        await page.evaluate("location.hash = '#find=3'")
        await page.wait("window.goOn !== undefined")
        await page.evaluate("location.hash = '#find=4'")
        await page.wait("document.querySelector('#result-title').textContent === 'Found for 4'")
        await page.evaluate("window.goOn(); new Promise((resolve) => setTimeout(resolve, 50))")
        assert await page.text("#result-title") == "Found for 4"
        assert await page.evaluate("document.querySelector('#query').value") == "4"

    visit(scenario)


def test_the_page_of_a_long_chain_asks_for_no_more_than_that_of_a_short_one(
    site: Any, long_site: Any, visit: Any
) -> None:
    async def scenario(page: Page) -> None:
        asked: list[tuple[int, dict[str, int]]] = []
        own = long_site.node.view
        for view, blocks in ((site.node.view, LAST_BLOCK), (own, LONG_CHAIN_BLOCKS)):
            long_site.show(view)
            await page.open(long_site.url)
            await page.wait(IS_SHOWN)
            assert f"{blocks:,}" in await page.text("#tips")
            document = await page.evaluate("performance.getEntriesByType('navigation')[0].decodedBodySize")
            sizes = "performance.getEntriesByType('resource').map((entry) => [entry.name, entry.decodedBodySize])"
            # The page's files come in any order, and on a busy machine it has asked again for what it shows.
            data = {name: size for name, size in await page.evaluate(sizes) if not IS_FILE.search(name)}
            asked.append((document, data))
        (short_document, short), (long_document, long) = asked
        assert long_document < 2 * short_document
        assert all(size < 2 * short_document for size in long.values())
        assert len(long) <= len(short) + 1

    visit(scenario)


# ---- the explorer ---------------------------------------------------------------------------------------


def test_a_slash_goes_to_the_search_and_escape_closes_what_was_found(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert await page.evaluate("document.title") == "fastnode"
        await search(page, "3")
        assert await page.evaluate("document.title") == "Block 3 · fastnode"
        await page.press("Escape")
        await page.wait("document.querySelector('#result').hidden")
        assert await page.evaluate("[document.title, location.hash]") == ["fastnode", ""]
        await page.evaluate("document.activeElement.blur()")
        await page.press("/")
        await page.wait("document.activeElement.id === 'query'")
        await page.type("a/b")
        assert await page.evaluate("document.querySelector('#query').value") == "a/b", "a slash is a letter there"
        await page.evaluate("document.activeElement.blur(); document.querySelector('#query').focus()")
        await page.type("4")
        assert await page.evaluate("document.querySelector('#query').value") == "4", "the search selects itself"

    visit(scenario)


def test_a_transaction_has_its_effects_as_tables_and_a_block_its_age(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        number, effects = 0, []
        while not effects:
            number += 1
            effects = (await open_site.ask("node_getBlock", number))["body"]["txEffects"]
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        shown = await search(page, effects[0]["txHash"])
        assert f"Nullifiers: {len(effects[0]['nullifiers'])}" in shown
        captions = await page.evaluate(
            "[...document.querySelectorAll('#result caption')].map((each) => each.textContent)"
        )
        assert captions[0] == f"Nullifiers: {len(effects[0]['nullifiers'])}"
        assert "ago)" in await search(page, str(number))
        await page.resize(*PHONE, is_phone=True)
        await search(page, effects[0]["txHash"])
        assert await fits(page, PHONE[0])

    visit(scenario)


def test_number_hash_transaction_and_address_are_found_and_lead_on(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        block = await open_site.ask("node_getBlock", 3)
        number, effects = 0, []
        while not effects:
            number += 1
            effects = (await open_site.ask("node_getBlock", number))["body"]["txEffects"]
        tx_hash = effects[0]["txHash"]
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert "Block 3" in await search(page, "3")
        assert await page.evaluate("document.activeElement.id") == "result-title"
        assert "Block 3" in await search(page, block["hash"])
        assert "Transaction" in (found := await search(page, tx_hash))
        assert "node_getTxReceipt" in found
        assert '"txHash": "' + tx_hash in found
        assert "Contract" in await search(page, FEE_JUICE)
        assert "Public storage" in await search(page, f"{FEE_JUICE}:1")
        assert "Nothing on this chain" in await search(page, "0x" + "12" * 32)

        await search(page, tx_hash)
        await page.evaluate("[...document.querySelectorAll('#result dd a')].at(-1).click()")
        await page.wait(f"document.querySelector('#result').innerText.includes('Block {number}')")
        await page.click('#blocks a[href="#block=3"]')
        await page.wait("document.querySelector('#result-title').textContent === 'Block 3, whole'")
        shown = await page.evaluate("JSON.parse(document.querySelector('#result pre').textContent)")
        assert shown == block

    visit(scenario)


LINKS = "[...document.querySelectorAll('#result pre a')].map((link) => link.textContent)"


def test_every_link_in_a_document_leads_to_something_and_roots_and_note_hashes_are_none(
    open_site: Any, visit: Any
) -> None:
    async def scenario(page: Page) -> None:
        number, body = 0, {"txEffects": []}
        while not any(effect["noteHashes"] for effect in body["txEffects"]):
            number += 1
            block = await open_site.ask("node_getBlock", number)
            body = block["body"]
        first = body["txEffects"][0]["txHash"]
        dead = {block["archive"]["root"], block["header"]["lastArchive"]["root"]}
        dead |= {note for effect in body["txEffects"] for note in effect["noteHashes"] + effect["nullifiers"]}
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.evaluate(f"location.hash = '#block={number}'")
        await page.wait(f"document.querySelector('#result-title').textContent === 'Block {number}, whole'")
        linked = set(await page.evaluate(LINKS))
        assert {first, block["hash"]} <= linked
        for text in (first, FEE_JUICE, str(number)):
            await search(page, text)
            linked |= set(await page.evaluate(LINKS))
        assert not linked & dead
        for link in linked:
            assert "Nothing on this chain" not in await search(page, link), link

    visit(scenario)


def test_every_item_stands_in_a_list_that_is_one(open_site: Any, visit: Any) -> None:
    logging.getLogger("fastnode.test").info("a line to be seen")

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert "a line to be seen" in await page.text("#log")
        strays = (
            "[...document.querySelectorAll('li')].filter((item) => !['UL', 'OL'].includes(item.parentElement.tagName)"
            " || ![null, 'list'].includes(item.parentElement.getAttribute('role'))).map((item) => item.outerHTML)"
        )
        assert await page.evaluate(strays) == []

    visit(scenario)


def test_an_address_of_a_finding_can_be_passed_on(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url + "#find=7")
        await page.wait("!document.querySelector('#result').hidden")
        assert "Block 7" in await page.text("#result")

    visit(scenario)


def test_lists_lead_on_and_times_are_ages_with_the_time_beside(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        for name in ("newest", "blocks", "transactions", "checkpoints", "epochs", "contracts", "classes", "pending"):
            await page.evaluate(f"location.hash = '#find={name}'")
            await page.wait(f"document.querySelector('#result-title').textContent === 'Found for {name}'")
            rows = await page.evaluate("document.querySelectorAll('#result table.found tbody tr').length")
            assert (rows > 0) is (name != "pending"), name
        header = await open_site.ask("node_getBlockHeader", 3)
        made = int(header["globalVariables"]["timestamp"])
        await search(page, "blocks 3")
        written = datetime.fromtimestamp(made, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = "document.querySelector('#result tbody time')"
        assert await page.evaluate(f"[{shown}.dateTime, {shown}.title]") == [written, written]
        assert "ago" in await page.evaluate(f"{shown}.textContent")
        await page.evaluate("document.querySelector('#result tbody a').click()")
        await page.wait("document.querySelector('#result-title').textContent === 'Found for 3'")
        ages = "[...document.querySelectorAll('#blocks .age')].map((cell) => cell.title)"
        assert written in await page.evaluate(ages)

    visit(scenario)


def test_a_button_copies_what_stands_beside_it(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        block = await open_site.ask("node_getBlock", 3)
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await search(page, "3")
        await page.evaluate(
            "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
            " { value: { writeText: async (text) => { window.copied.push(text); } } })"
        )
        await page.evaluate("document.querySelector('#result button[aria-label=\"Copy Hash\"]').click()")
        await page.wait("window.copied.length === 1")
        assert await page.evaluate("window.copied[0]") == block["hash"]
        await page.wait("[...document.querySelectorAll('.copy')].some((button) => button.textContent === 'Copied')")

    visit(scenario)


# ---- for everybody --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_all_without_scrolling_sideways(open_site: Any, visit: Any, scheme: str) -> None:
    async def scenario(page: Page) -> None:
        await page.resize(*PHONE, is_phone=True)
        await page.prefer(scheme)
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert await fits(page, PHONE[0])
        for text in (
            "1",
            FEE_JUICE,
            f"{FEE_JUICE}:1",
            "x" * 200,
            "blocks",
            "checkpoints",
            "epochs",
            "contracts",
            "classes",
        ):
            await search(page, text)
            assert await fits(page, PHONE[0]), text
        await page.click('#blocks a[href="#block=1"]')
        await page.wait("document.querySelector('#result-title').textContent === 'Block 1, whole'")
        assert await fits(page, PHONE[0])
        light = await page.evaluate("matchMedia('(prefers-color-scheme: light)').matches")
        assert light is (scheme == "light")

    visit(scenario)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
def test_the_accessibility_checker_finds_nothing(
    open_site: Any, visit: Any, scheme: str, size: tuple[int, int], axe: str
) -> None:
    async def scenario(page: Page) -> None:
        await page.resize(*size, is_phone=size is PHONE)
        await page.prefer(scheme)
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.evaluate(axe + "; 0")
        for text in ("blocks", "3", FEE_JUICE, "checkpoints", "contracts", "nothing"):
            await search(page, text)
            assert await fits(page, size[0]), text
            found = await page.evaluate(
                "axe.run(document).then((result) => result.violations.map((flaw) =>"
                " [flaw.id, flaw.nodes.map((node) => node.html)]))"
            )
            assert found == [], text

    visit(scenario)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, fetched from npm into the user's cache."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not here")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastnode-tests" / f"axe-{AXE}"
    if not folder.is_dir():
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        half.mkdir(parents=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", f"axe-core@{AXE}"]
        subprocess.run(command, cwd=half, check=True, capture_output=True, timeout=300)
        half.rename(folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def test_the_numbers_of_a_long_chain_fit_on_a_phone(long_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.resize(*PHONE, is_phone=True)
        await page.open(long_site.url)
        await page.wait(IS_SHOWN)
        assert await fits(page, PHONE[0])
        # Nor does any table stick out of its card.
        widest = (
            "Math.max(...[...document.querySelectorAll('table')].map((item) => item.getBoundingClientRect().right))"
        )
        assert await page.evaluate(widest) <= PHONE[0] - 12

    visit(scenario)


CHARTS = (
    "['#rate-chart', '#latency-chart'].map((id) => document.querySelector(id)).map((chart) =>"
    " ({ scale: chart.getBoundingClientRect().width / chart.viewBox.baseVal.width,"
    " sticksOut: [...chart.querySelectorAll('text')].some((text) => text.getBoundingClientRect().right >"
    " chart.getBoundingClientRect().right + 1) }))"
)


@pytest.mark.parametrize("size", [PHONE, TABLET, DESKTOP], ids=["phone", "tablet", "desktop"])
def test_labels_of_charts_have_the_size_of_text_at_any_width(open_site: Any, visit: Any, size: tuple[int, int]) -> None:
    async def scenario(page: Page) -> None:
        await page.resize(*size, is_phone=size is PHONE)
        await page.open(open_site.url)
        await page.wait("performance.getEntriesByName('complete').length")
        for chart in await page.evaluate(CHARTS):
            assert 0.95 < chart["scale"] < 1.05
            assert not chart["sticksOut"]

    visit(scenario)


def test_an_empty_list_says_so_and_the_search_says_what_is_shown(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        assert "There are none now." in await search(page, "pending")
        assert "There are none now." not in await search(page, "blocks")
        await page.click('#blocks a[href="#block=3"]')
        await page.wait("document.querySelector('#result-title').textContent === 'Block 3, whole'")
        assert await page.evaluate("document.querySelector('#query').value") == "3"

    visit(scenario)


def test_hashes_alone_are_written_as_code_and_selectors_are_not_broken(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.resize(*TABLET)
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await search(page, FEE_JUICE)
        coded = await page.evaluate(
            "[...document.querySelectorAll('#result dd .hash, #result td .hash')].map((item) => item.textContent)"
        )
        assert coded
        assert all(text.startswith("0x") for text in coded)
        lines = await page.evaluate(
            "[...document.querySelectorAll('#result td[data-name=Selector] .hash')]"
            ".map((item) => item.getClientRects().length)"
        )
        assert set(lines) == {1}

    visit(scenario)


def test_everything_can_be_reached_and_named_without_a_mouse(open_site: Any, visit: Any) -> None:
    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        reached = []
        for _ in range(12):
            await page.press("Tab")
            reached.append(await page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert reached[0] == "skip"
        assert "query" in reached
        nameless = (
            "[...document.querySelectorAll('a, button, input, svg, pre')].filter((item) => !(item.innerText?.trim()"
            " || item.getAttribute('aria-label') || item.labels?.length || item.closest('[hidden]')"
            " || item.type === 'text')).map((item) => item.outerHTML)"
        )
        assert await page.evaluate(nameless) == []

    visit(scenario)


HOSTILE = '<img src=x onerror="window.pwned = true"><script>window.pwned = true</script>'


def test_markup_from_outside_is_text(open_site: Any, visit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = overview._calls  # names come from the node's own table: only here is one like this

    def with_a_hostile_name(servers: Any) -> Any:
        counted = calls(servers)
        assert counted is not None
        row = [1] * (len(counted["boundsNs"]) + 3)
        return {**counted, "methods": {**counted["methods"], HOSTILE: row}}

    monkeypatch.setattr(overview, "_calls", with_a_hostile_name)
    logging.getLogger("fastnode.test").warning("%s", HOSTILE, extra=log_facts(name_of=HOSTILE))

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        await page.wait("document.querySelector('#calls').innerText.includes('<img')")
        assert HOSTILE in await page.text("#log")
        assert HOSTILE in await page.text("#calls")
        assert HOSTILE in await search(page, HOSTILE)
        assert await page.evaluate("document.querySelectorAll('img, #page script').length") == 0
        assert await page.evaluate("window.pwned") is None

    visit(scenario)


#: Progress of a chain that is derived from L1.
PROGRESS = {
    "checkpoint": 9,
    "ofCheckpoint": 90,
    "l1Block": 100,
    "ofL1Block": 200,
    "checkpointsPerSecond": None,
    "etaSeconds": None,
}


def test_upstreams_and_l1_are_shown_with_what_is_wrong(
    open_site: Any, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = {"state": "put aside", "reason": HOSTILE, "since": 0, "isFastnode": False, "nodeVersion": HOSTILE}
    sync = {
        "state": "degraded",
        "reason": "no upstream answers",
        "sourceTip": 20,
        "lagBlocks": 4,
        "lastPassAt": None,
        "upstreams": [{"name": "upstream 1", "tip": None, **trouble}],
        "l1": {
            "state": "reading",
            "reason": None,
            "block": 1234,
            "blockTime": 0,
            "nodes": [{"name": "L1 node 1", "ok": False, "reason": "another chain"}],
        },
    }
    render = overview.Overview.render

    def with_upstreams(self: Any, *, after: int = 0) -> bytes:
        return orjson.dumps({**orjson.loads(render(self, after=after)), "sync": sync})

    monkeypatch.setattr(overview.Overview, "render", with_upstreams)

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        shown = await page.text("#sync")
        assert "degraded: no upstream answers" in shown
        assert "reading, block 1,234" in shown
        assert "another chain" in shown
        assert f"({HOSTILE})" in await page.text("#upstreams")
        assert "4 blocks" in await page.text("#tips")
        assert await page.evaluate("window.pwned") is None

    visit(scenario)


@pytest.mark.parametrize(
    ("behind", "told", "value"),
    [
        (
            {"tip": 40, "sourceTip": 80, "lagBlocks": 40, "catchingUp": {"blocksPerSecond": 20.5, "etaSeconds": 95}},
            "block 40 of 80, 20.5 a second, 95 s left",
            40,
        ),
        (
            {"tip": 40, "sourceTip": None, "lagBlocks": None, "derivation": {"progress": PROGRESS}},
            "checkpoint 9 of 90",
            9,
        ),
        (
            {"tip": 80, "sourceTip": 80, "lagBlocks": 0, "catchingUp": None, "derivation": {"progress": None}},
            None,
            None,
        ),
    ],
    ids=["blocks", "checkpoints", "nothing"],
)
def test_a_chain_that_is_behind_has_a_bar_with_rate_and_time_left(
    open_site: Any, visit: Any, monkeypatch: pytest.MonkeyPatch, behind: dict[str, Any], told: str | None, value: int
) -> None:
    sync = {"state": "catching up", "reason": None, "lastPassAt": None, "upstreams": [], "l1": None, **behind}
    render = overview.Overview.render

    def while_behind(self: Any, *, after: int = 0) -> bytes:
        return orjson.dumps({**orjson.loads(render(self, after=after)), "sync": sync})

    monkeypatch.setattr(overview.Overview, "render", while_behind)

    async def scenario(page: Page) -> None:
        await page.open(open_site.url)
        await page.wait(IS_SHOWN)
        if told is None:
            assert await page.evaluate("document.querySelector('#sync progress') === null")
            return
        assert told in await page.text("#sync")
        assert await page.evaluate("document.querySelector('#sync progress').value") == value

    visit(scenario)


# ---- pictures -------------------------------------------------------------------------------------------


@pytest.mark.skipif(PICTURES is None, reason="set FASTNODE_SCREENSHOTS to a folder for new screenshots")
def test_pictures_for_the_documentation(start_site: Any, sample_chain: Path, browser: Chromium) -> None:
    site = start_site(sample_chain, disable_admin_api_key=True)

    async def scenario() -> None:
        folder = Path(PICTURES or "")
        async with browser.page() as page:
            await page.resize(*DESKTOP)
            await page.prefer("light")
            await page.open(site.url)
            await page.wait(IS_SHOWN)
            for round_ in range(60):
                await site.ask("node_getBlock", 5, size=3 + round_ % 7)
                await site.ask("node_getBlockNumber", size=12 + round_ % 17)
                await site.ask("node_getPublicStorageAt", "latest", FEE_JUICE, "0x1", size=5 + round_ % 5)
                await asyncio.sleep(0.4)
            await page.evaluate("scrollTo(0, 0)")
            # Lines that name a directory of this machine.
            await page.evaluate(
                "[...document.querySelectorAll('#log > div')].filter((line) => line.textContent.includes('pytest'))"
                ".forEach((line) => line.remove())"
            )
            await page.resize(DESKTOP[0], await page.evaluate("document.documentElement.scrollHeight"))
            await page.screenshot(folder / "status-page.png")
            await page.resize(*PHONE, is_phone=True)
            await page.prefer("dark")
            await search(page, "97")
            await page.evaluate("scrollTo(0, 0)")
            await page.screenshot(folder / "status-page-phone.png")

    site.run(scenario())
