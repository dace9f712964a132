"""The status page of a local network: its blocks as they come, its accounts, its buttons."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest
from tests.local_network.local_chain import for_chain
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.made import hash_of, made_txs
from tests.mempool.recorded import recordings
from tests.status_page.chromium import Chromium, Page
from tests.status_page.conftest import KEY, Site

from fastnode.local_network import opening
from fastnode.local_network.network import LocalNetwork
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx

IS_SHOWN = "!document.querySelector('#page').hidden"


@pytest.fixture(scope="module")
def local_site(start_site: Callable[..., Site]) -> Site:
    """A local network that asks for KEY."""
    return start_site(None, local_network=True, admin_api_key_hash=hashlib.sha256(KEY.encode()).hexdigest())


async def ask(site: Site, method: str, *params: object) -> Any:
    return await site.ask(method, *params)


def test_the_overview_has_accounts_with_their_balances(local_site: Site) -> None:
    network = local_site.json("status-page/overview")["localNetwork"]
    assert network["automine"] is True
    balances = {account["name"]: int(account["balance"]) for account in network["accounts"]}
    assert set(balances) == {"account 0", "account 1", "account 2", "banana FPC", "sponsored FPC"}
    assert balances["sponsored FPC"] == 10**22
    assert 0 < balances["account 0"] < 10**22


def test_a_node_that_is_none_says_so(open_site: Site) -> None:
    assert open_site.json("status-page/overview")["localNetwork"] is None


def test_the_buttons_need_the_key(local_site: Site) -> None:
    status, _, _ = local_site.get("", key=None, method="POST")
    assert status == 401


def test_a_transaction_has_its_public_calls_and_its_revert_stack(
    local_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = "0x" + "0a".rjust(64, "0")
    frame = {"contractAddress": contract, "functionSelector": "0x8c9e5472", "functionName": "transfer_in_public"}
    notes = local_site.node.core.local_network.network.notes  # type: ignore[union-attr]
    failure = {"originalMessage": "Assertion failed: too little", "functionErrorStack": [dict(frame)]}
    monkeypatch.setattr(notes, "calls_json", lambda _: orjson.dumps([{**frame, "phase": "app", "args": ["0x1"]}]))
    monkeypatch.setattr(notes, "failure_json", lambda _: orjson.dumps(failure))
    tx_hash = local_site.run(mined_tx(local_site))
    (found,) = local_site.find(tx_hash)["found"]
    facts = {fact["name"]: fact["value"] for fact in found["facts"]}
    assert facts["Public call 0, app"] == f"transfer_in_public of {contract}"
    assert facts["Reverted"] == "Assertion failed: too little"
    assert facts["Revert stack 0"] == f"transfer_in_public of {contract}"


@pytest.fixture(scope="module")
def copied_site(start_site: Callable[..., Site]) -> Site:
    """A local network that goes on from the recorded one at its time, so that what wallets sent to that can be sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "LocalNetwork", partial(LocalNetwork, wall=lambda: 0.0))
        key_hash = hashlib.sha256(KEY.encode()).hexdigest()
        return start_site(SAMPLE_CHAIN, local_network=True, admin_api_key_hash=key_hash)


def test_the_failure_of_a_transaction_is_traced_when_it_is_not_in_memory(copied_site: Site) -> None:
    """As after a restart."""
    recorded = next(row["tx"] for row in recordings().values() if row["label"] == "divide by zero")
    copied_site.run(ask(copied_site, "node_sendTx", recorded))
    notes = copied_site.node.core.local_network.network.notes  # type: ignore[union-attr]
    known = copied_site.run(ask(copied_site, "fastnode_getTxFailure", recorded["txHash"]))
    assert known["functionErrorStack"]
    notes._failures.forget(bytes.fromhex(recorded["txHash"][2:]))
    assert notes.failure_json(bytes.fromhex(recorded["txHash"][2:])) is None
    assert copied_site.run(ask(copied_site, "fastnode_getTxFailure", recorded["txHash"])) == known


@pytest.mark.parametrize(("label", "depth"), [("token public transfer reverts", 1), ("nested revert", 2)])
def test_a_transaction_that_really_reverts_says_where(copied_site: Site, label: str, depth: int) -> None:
    (recorded,) = (row["tx"] for row in recordings().values() if (row["origin"], row["label"]) == ("fresh", label))
    contract = "0x" + Tx.from_json(recorded, FOUR).data.app_calls[0].contract_address.hex()
    copied_site.run(ask(copied_site, "node_sendTx", recorded))
    receipt = copied_site.run(ask(copied_site, "node_getTxReceipt", recorded["txHash"]))
    assert receipt["executionResult"] == "app_logic_reverted"
    (found,) = copied_site.find(recorded["txHash"])["found"]
    facts = {fact["name"]: fact["value"] for fact in found["facts"]}
    assert facts["Public call 0, app"].endswith(f" of {contract}")
    assert facts["Reverted"] == "Assertion failed: "
    assert int(facts["Revert data 0"], 16) > 0
    stack = [value for name, value in facts.items() if name.startswith("Revert stack")]
    assert len(stack) == depth
    assert all(frame.startswith("0x") and frame.endswith(f" of {contract}") for frame in stack)


def test_a_transaction_that_waits_is_listed_and_tells_its_calls_and_what_it_may_cost(copied_site: Site) -> None:
    (recorded,) = (
        row["tx"]
        for row in recordings().values()
        if (row["origin"], row["label"]) == ("fresh", "token public transfer")
    )
    tx_hash, data = recorded["txHash"], Tx.from_json(recorded, FOUR).data
    copied_site.run(ask(copied_site, "fastnode_setAutomine", False))
    try:
        copied_site.run(ask(copied_site, "node_sendTx", recorded))
        (listed,) = copied_site.find("pending")["found"]
        assert listed["title"] == "Pending transactions: 1"
        ((name, payer, fee, calls),) = listed["table"]["rows"]
        assert (name["query"], calls["value"]) == (tx_hash, str(len(data.public_calls)))
        assert payer["value"] == "0x" + data.fee_payer.hex()
        assert fee["value"].endswith(" fee juice") or "fee juice (" in fee["value"]
        (found,) = copied_site.find(tx_hash)["found"]
        assert found["title"] == "Pending transaction"
        told = {fact["name"]: fact for fact in found["facts"]}
        assert told["Public call 0, app logic"]["query"] == "0x" + data.app_calls[0].contract_address.hex()
        assert copied_site.find(f"pending {tx_hash}")["found"][0]["table"]["rows"] == []
    finally:
        copied_site.run(ask(copied_site, "fastnode_setAutomine", True))


async def mined_tx(site: Site) -> str:
    """Hash of a transaction that has its block."""
    header, version = await ask(site, "node_getBlockHeader", "latest"), await ask(site, "node_getVersion")
    (tx,) = made_txs(1)
    made = for_chain(tx, header, version)
    await ask(site, "node_sendTx", made)
    return hash_of(made)


def test_blocks_appear_and_the_buttons_do_what_they_say(
    local_site: Site, browser: Chromium, runner: asyncio.Runner
) -> None:
    async def scenario() -> None:
        async with browser.page() as page:
            await page.resize(1200, 1000)
            await page.open(local_site.url)
            await page.wait("document.activeElement.id === 'key'")
            page.errors.clear()
            await page.type(KEY)
            await page.press("Enter")
            await page.wait(IS_SHOWN)
            assert "account 0" in await page.text("#accounts")
            assert "10,000" in await page.text("#accounts")
            await use(page)
            assert page.errors == []

    async def newest() -> int:
        number: int = await ask(local_site, "node_getBlockNumber")
        return number

    async def use(page: Page) -> None:
        before = await newest()
        await ask(local_site, "fastnode_mine", 2)
        await page.wait(f"document.querySelector('#blocks tr td a').textContent === '{before + 2}'")

        await page.click("#mine")
        await page.wait(f"document.querySelector('#done').textContent === 'Block {before + 3} is built.'")
        await page.click("#snapshot")
        await page.wait("document.querySelector('#snapshots').value !== ''")
        time = int((await ask(local_site, "node_getBlockHeader", "latest"))["globalVariables"]["timestamp"])
        await page.click("#warp")
        await page.wait("document.querySelector('#done').textContent.startsWith('It is 20')")
        header = await ask(local_site, "node_getBlockHeader", "latest")
        assert int(header["globalVariables"]["timestamp"]) >= time + 3600
        await page.click("#revert")
        await page.wait("document.querySelector('#done').textContent.startsWith('The chain is as at snapshot')")
        assert await newest() == before + 3
        await page.wait(f"document.querySelector('#blocks tr td a').textContent === '{before + 3}'")
        await page.wait("document.querySelector('#revert').disabled")
        await page.evaluate("document.querySelector('#seconds').value = '0'")
        await page.click("#warp")
        assert await newest() == before + 3

    runner.run(scenario())
