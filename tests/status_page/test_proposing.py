"""The status page of a node that proposes and proves: slots and why they were missed, accounts, signatures, proofs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.publishing.live_l1 import ROLLUP, address_of, open_publishers, test_key
from tests.status_page.chromium import Chromium, Page
from tests.status_page.conftest import Site

from fastnode.errors import SigningError
from fastnode.loop import CLOCK
from fastnode.outgoing.network import Network
from fastnode.proving.prover import Prover, ProverOptions
from fastnode.publishing.requests import OutcomeKind
from fastnode.publishing.signing import SigningDoor
from fastnode.sequencing.record import SlotOutcome, SlotRecord
from fastnode.sources.l1.endpoints import L1Client

IS_SHOWN = "!document.querySelector('#page').hidden && !document.querySelector('#proposing').hidden"
WHY = "too few attestations: 2 of 4 have signed <b>"
ACCOUNTS = [address_of(test_key(0)), address_of(test_key(1))]


@pytest.fixture
def proposing(tmp_path: Any) -> Iterator[dict[str, Any]]:
    """Status of such a node, said by its parts."""
    record = SlotRecord()
    record.note(100, SlotOutcome.PROPOSED, checkpoint=7, blocks=2, txs=5, seconds=3.25)
    record.note(101, SlotOutcome.MISSED, WHY)
    unused: Any = None
    reader: Any = SimpleNamespace(clock=CLOCK)
    prover = Prover(reader, unused, unused, unused, ProverOptions(prover_id=b"\1" * 20), unused)
    prover.epochs, prover.checkpoints, prover.state = 3, 11, "waits for epoch 9 to be complete"
    with Network() as network:
        door = SigningDoor(lambda: {ACCOUNTS[0]: test_key(0)}, ROLLUP, network)
        door.sign_message(ACCOUNTS[0], bytes(32))
        with pytest.raises(SigningError):
            door.sign_message(ACCOUNTS[1], bytes(32))
        client = L1Client(["http://127.0.0.1:9"], network)
        publishers = open_publishers(client, door, ACCOUNTS, tmp_path, balance_min_wei=10**18)
        first, second = publishers.all
        first.balance_wei, second.balance_wei = 25 * 10**17, 10**15
        first.totals.fees_wei = 12 * 10**14
        first.totals.outcomes[OutcomeKind.PUBLISHED] += 1
        yield {
            "sequencer": {
                "state": "slot 101: missed",
                **record.describe(),
                "attestations": {"attested": 4, "refused": 1, "refusal": "slot 99: the escape hatch is open"},
            },
            "prover": prover.describe(),
            "publishing": {
                "publishers": publishers.describe(),
                "signing": {
                    "keys": len(door.addresses),
                    "isShared": door.is_shared,
                    "signed": dict(door.signed),
                    "yielded": {"ATTESTATION": 2},
                    "failed": dict(door.failed),
                },
            },
        }
        publishers.close()


@pytest.fixture
def proposer_site(open_site: Site, proposing: dict[str, Any]) -> Iterator[Site]:
    with writing(open_site, proposing):
        yield open_site


@contextmanager
def writing(site: Site, proposing: dict[str, Any]) -> Iterator[None]:
    """The node has a part for each of these."""
    parts = site.node.equipment.parts
    before = parts._parts
    made: Any = [SimpleNamespace(describe=lambda item=item: dict([item])) for item in proposing.items()]
    parts._parts = [*before, *made]
    yield
    parts._parts = before


def test_the_overview_says_it_in_json_and_a_node_that_writes_nothing_says_nothing(
    open_site: Site, proposing: dict[str, Any]
) -> None:
    assert open_site.json("status-page/overview")["proposing"] is None
    with writing(open_site, proposing):
        assert open_site.json("status-page/overview")["proposing"] == proposing


def test_the_page_shows_slots_accounts_signatures_and_proofs(
    proposer_site: Site, browser: Chromium, runner: asyncio.Runner
) -> None:
    async def look(page: Page) -> None:
        await page.resize(1200, 1000)
        await page.open(proposer_site.url)
        await page.wait(IS_SHOWN)
        facts = await page.text("#proposing-facts")
        for part in (
            "1 proposed, 1 missed",
            "2 blocks with 5 transactions",
            "4, 1 refused; the newest: slot 99: the escape hatch is open",
            "waits for epoch 9 to be complete",
            "3 epochs, 11 checkpoints; 0 failures",
            "1, not shared with other nodes",
            "1 MESSAGE",
            "2 ATTESTATION",
        ):
            assert part in facts, facts
        slots = await page.text("#slots")
        assert WHY in slots, "as text, not as markup"
        assert "101" in slots
        assert "3.3 s" in slots
        accounts = await page.text("#publishers")
        assert "2.5" in accounts
        assert "0.0012" in accounts
        low = await page.evaluate("document.querySelector('#publishers tr:nth-child(2) td.bad').textContent")
        assert low == "0.001"
        await page.resize(360, 740)
        assert await page.evaluate("document.documentElement.scrollWidth <= 360")
        assert page.errors == []

    async def in_a_tab() -> None:
        async with browser.page() as page:
            await look(page)

    runner.run(in_a_tab())


def test_a_node_that_writes_nothing_has_no_such_panel(
    open_site: Site, browser: Chromium, runner: asyncio.Runner
) -> None:
    async def look() -> None:
        async with browser.page() as page:
            await page.open(open_site.url)
            await page.wait("!document.querySelector('#page').hidden")
            assert await page.evaluate("document.querySelector('#proposing').hidden")

    runner.run(look())
