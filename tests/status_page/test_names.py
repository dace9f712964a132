"""Names of contracts in the explorer, and traces as trees: as they are answered, and as a browser shows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from tests.api.test_traces import keep
from tests.mempool.recorded import recorded_tx, recordings
from tests.ports import free_port
from tests.protocol.test_artifacts import CLASS_ID, compact, raw
from tests.status_page.conftest import PATIENCE_S, Site, _until_loaded
from tests.status_page.test_in_chromium import DESKTOP, IS_SHOWN, PHONE, PICTURES, TABLET, fits, search
from tests.status_page.test_in_chromium import axe as axe
from tests.status_page.test_in_chromium import visit as visit

from fastnode.app.process.node import Node
from fastnode.config.settings import Settings
from fastnode.status_page import contract_txs
from fastnode.values.counts import Quantity
from fastnode.view import View

#: A contract whose artifact is registered here, and one that is known.
AVM_TEST, TOKEN = "0x089a635c", "0x027d1643"
SIZES = (PHONE, TABLET, DESKTOP)


def mined_of(prefix: str, *, reverts: bool = False) -> str:
    """A recorded transaction that calls this contract alone."""
    for text, row in recordings().items():
        if row["origin"] == "sent" and row["tx"]["publicFunctionCalldata"]:
            data = recorded_tx(text).data
            called = [call.contract_address.hex() for call in (*data.setup_calls, *data.app_calls)]
            code = REVERT_CODES.get(text)
            if called and all(address.startswith(prefix[2:]) for address in called) and (code == 1) is reverts:
                return text
    raise AssertionError(f"no recorded transaction calls {prefix}")


def address_of_avm_test() -> str:
    return "0x" + recorded_tx(mined_of(AVM_TEST)).data.app_calls[0].contract_address.hex()


REVERT_CODES: dict[str, int] = {}
TO_THE_TREE = "[...document.querySelectorAll('#result a')].find((a) => a.textContent.includes('as a tree')).click()"


@pytest.fixture(scope="module")
def named_site(
    runner: asyncio.Runner, chain_directory: Path, view: View, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A node with the whole sample chain that has kept two transactions, and knows the artifact of a contract."""
    for number in range(1, view.chain.tip_number + 1):
        block = view.chain.load_block(number)
        assert block is not None
        REVERT_CODES.update(("0x" + effect.tx_hash.hex(), effect.revert_code) for effect in block.body.tx_effects)
    directory = tmp_path_factory.mktemp("named") / "data"
    shutil.copytree(chain_directory, directory)
    hashes = [mined_of(AVM_TEST, reverts=True), mined_of(AVM_TEST), mined_of(TOKEN)]
    keep(directory / "p2p", view.chain.chain.genesis_block_hash, hashes)
    settings = Settings(
        data_directory=directory,
        port=0,
        admin_port=0,
        metrics_port=free_port(),
        disable_admin_api_key=True,
        keep_txs=Quantity(number=10),
        public_traces=True,
    )
    node = runner.run(Node.start(settings))
    try:
        site = Site(runner, node)
        site.run(_until_loaded(node, view.chain.tip_number))
        yield site
    finally:
        runner.run(node.stop())


async def register(site: Site, record: dict[str, Any]) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": "fastnode_registerArtifact", "params": [record]}
    async with aiohttp.ClientSession() as session, session.post(site.url, json=call) as answer:
        found: dict[str, Any] = await answer.json()
    return found


def tables(finding: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    return {
        table["title"].partition(":")[0]: [{cell["name"]: cell["value"] for cell in row} for row in table["rows"]]
        for table in finding["tables"]
    }


def test_effects_and_calls_have_names_and_an_address_tells_what_is_there(named_site: Site) -> None:
    assert named_site.run(register(named_site, raw()))["result"]["classId"] == "0x" + CLASS_ID
    transaction = named_site.find(mined_of(TOKEN))["found"][0]
    writes = tables(transaction)["Public writes"]
    assert {"Token", "Fee juice"} >= {row["Contract"] for row in writes if row["Contract"] != "not known"}
    assert any(row["Slot"].startswith("balances[0x") for row in writes), "of the payer, in fee juice"
    assert any(row["Contract"] == "Token" for row in writes)
    calls = [fact["value"] for fact in transaction["facts"] if fact["name"].startswith("Public call")]
    assert all(" of Token" in call for call in calls)
    assert transaction["trace"] == mined_of(TOKEN)
    address = named_site.run(named_site.ask("fastnode_traceTransaction", mined_of(AVM_TEST)))["calls"][0][
        "contractAddress"
    ]
    contract = next(found for found in named_site.find(address)["found"] if found["kind"] == "contract")
    assert contract["title"] == "Contract AvmTest"
    facts = {fact["name"]: fact["value"] for fact in contract["facts"]}
    assert {"Class", "Deployer", "Since block", "Fee juice"} <= facts.keys()
    assert [row["Name"] for row in tables(contract)["Storage"]] == ["single", "list", "map"]
    assert "set_storage_map" in {row["Function"] for row in tables(contract)["Functions"]}


def test_transactions_of_a_contract_are_found_page_by_page(named_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract_txs, "TXS_LOOKED", 7)
    monkeypatch.setattr(contract_txs, "TIME_S", PATIENCE_S)
    for hash_text in (mined_of(TOKEN), mined_of(AVM_TEST)):
        called = recorded_tx(hash_text).data.app_calls[0].contract_address
        address = "0x" + called.hex()
        (contract,) = [found for found in named_site.find(address)["found"] if found["kind"] == "contract"]
        assert f"calls {address}" in [fact["query"] for fact in contract["facts"]]
        rows, query, pages = [], f"calls {address}", 0
        while query:
            (page,) = named_site.find(query)["found"]
            rows += [{cell["name"]: cell["value"] for cell in row} for row in page["table"]["rows"]]
            query = page["more"][0]["query"] if page["more"] else ""
            pages += 1
        told = {row["Transaction"]: row["With this contract"] for row in rows}
        assert len(told) == len(rows)
        assert pages > 2
        assert "called" in told[hash_text]
        logging = {text for text, how in told.items() if "public log" in how}
        assert logging_txs(named_site, address) <= logging
        for text in logging:
            effect = named_site.run(named_site.ask("node_getTxEffect", text))["data"]
            assert address in {log["contractAddress"] for log in effect["publicLogs"]}


def logging_txs(site: Site, address: str) -> set[str]:
    """Transactions with a public log of a contract, the first of them."""
    logs = site.run(site.ask("node_getPublicLogs", {"contractAddress": address}))["logs"]
    return {log["id"]["txHash"] for log in logs}


def test_a_trace_is_answered_for_the_page_and_what_has_none_says_why(
    named_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trace(text: str) -> dict[str, Any]:
        answer: dict[str, Any] = named_site.json(f"status-page/trace?hash={quote(text)}")
        return answer

    found = trace(mined_of(TOKEN))
    assert found["message"] is None
    assert found["trace"]["calls"][0]["contractName"] == "Token"
    assert trace("0x" + "12" * 32) == {"trace": None, "message": "No such transaction is known."}
    assert "txHash" in trace("nonsense")["message"]
    monkeypatch.setattr("fastnode.status_page.explorer.TRACE_MAX", 10)
    assert "too large for a page: fastnode trace" in trace(mined_of(TOKEN))["message"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_and_the_tree_of_calls_are_seen_at_three_widths(
    named_site: Site, visit: Any, scheme: str, tmp_path: Path
) -> None:
    hostile = compact()
    hostile["errors"] = dict.fromkeys(hostile["errors"], "<img src=x onerror='window.pwned = true'> should fail")
    named_site.run(register(named_site, hostile if scheme == "dark" else compact()))
    folder = Path(PICTURES) if PICTURES and scheme == "light" else tmp_path

    async def scenario(page: Any) -> None:
        await page.prefer(scheme)
        for size in SIZES:
            await page.resize(*size, is_phone=size is PHONE)
            await page.open(named_site.url + f"#trace={mined_of(AVM_TEST)}")
            await page.wait("document.querySelector('#result .trace') !== null")
            tree = await page.text("#result .trace")
            assert "AvmTest." in tree
            assert await fits(page, size[0])
            await page.evaluate("document.querySelector('#result').scrollIntoView()")
            await page.screenshot(folder / f"explorer-trace-{size[0]}.png")
            await page.evaluate(f"location.hash = '#trace={mined_of(AVM_TEST, reverts=True)}'")
            await page.wait("document.querySelector('#result').innerText.includes('failed: ')")
            await page.evaluate(f"location.hash = '#find={mined_of(TOKEN)}'")
            await page.wait("document.querySelector('#result').innerText.includes('Public writes: ')")
            shown = await page.text("#result")
            assert "balances[0x" in shown
            assert "Token" in shown
            assert await fits(page, size[0])
            await page.evaluate(
                "[...document.querySelectorAll('#result a')].find((a) => a.textContent.includes('as a tree')).click()"
            )
            await page.wait("document.querySelector('#result .trace')?.innerText.includes('Token.')")
            assert await page.evaluate("window.pwned") is None
        assert (folder / f"explorer-trace-{PHONE[0]}.png").stat().st_size > 10_000

    visit(scenario)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["phone", "tablet", "desktop"])
def test_the_accessibility_checker_finds_nothing_in_names_and_trees(
    named_site: Site, visit: Any, scheme: str, size: tuple[int, int], axe: str
) -> None:
    named_site.run(register(named_site, compact()))
    address = named_site.run(named_site.ask("fastnode_traceTransaction", mined_of(AVM_TEST)))["calls"][0][
        "contractAddress"
    ]

    async def scenario(page: Any) -> None:
        await page.resize(*size, is_phone=size is PHONE)
        await page.prefer(scheme)
        await page.open(named_site.url)
        await page.wait(IS_SHOWN)
        await page.evaluate(axe + "; 0")
        for text in (mined_of(TOKEN), address, "#trace"):
            if text == "#trace":
                await page.evaluate(f"location.hash = '#trace={mined_of(AVM_TEST, reverts=True)}'")
                await page.wait("document.querySelector('#result .trace') !== null")
            else:
                await search(page, text)
            assert await fits(page, size[0]), text
            found = await page.evaluate(
                "axe.run(document).then((result) => result.violations.map((flaw) =>"
                " [flaw.id, flaw.nodes.map((node) => node.html)]))"
            )
            assert found == [], text

    visit(scenario)
