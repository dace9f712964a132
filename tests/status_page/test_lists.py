"""Lists of the explorer, what they lead to, and the search for leaves, tags and logs."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.mempool.sample_tx import sample_tx
from tests.status_page.conftest import LAST_BLOCK

from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.status_page import lists
from fastnode.status_page.calls import facts_of_tx
from fastnode.status_page.findings import fee_juice


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (finding,) = answer["found"]
    result: dict[str, Any] = finding
    return result


def column(finding: dict[str, Any], name: str) -> list[str]:
    return [cell["value"] for row in finding["table"]["rows"] for cell in row if cell["name"] == name]


def facts(finding: dict[str, Any]) -> dict[str, str]:
    return {fact["name"]: fact["value"] for fact in finding["facts"]}


def body_with(site: Any, name: str) -> tuple[int, Any]:
    """The first block with a transaction that has some of these effects, and that effect."""
    for number in range(1, LAST_BLOCK + 1):
        for effect in site.run(site.ask("node_getBlock", number))["body"]["txEffects"]:
            if effect[name]:
                return number, effect
    pytest.skip(f"the short chain has no {name}")


def test_blocks_are_listed_a_page_at_a_time_down_to_the_first(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_ROWS", 5)
    query, seen = "blocks", []
    while query is not None:
        finding = only(site.find(query))
        numbers = column(finding, "Block")
        assert len(numbers) <= 5
        seen += map(int, numbers)
        query = next((fact["query"] for fact in finding["more"] if fact["name"] == "Older"), None)
    assert seen == list(range(LAST_BLOCK, -1, -1))
    newer = next(fact for fact in only(site.find("blocks 4"))["more"] if fact["name"] == "Newer")
    assert column(only(site.find(newer["query"])), "Block")[0] == "9"


@pytest.mark.parametrize(("rows", "looked"), [(25, 100), (4, 100), (3, 5)])
def test_transactions_are_listed_a_page_at_a_time_down_to_the_first(
    site: Any, monkeypatch: pytest.MonkeyPatch, rows: int, looked: int
) -> None:
    """Whole, also where a page ends inside of a block, or behind many empty ones."""
    monkeypatch.setattr(lists, "PAGE_ROWS", rows)
    monkeypatch.setattr(lists, "_BLOCKS_LOOKED", looked)
    blocks = [site.run(site.ask("node_getBlock", number)) for number in range(LAST_BLOCK, 0, -1)]
    query, seen = "transactions", []
    while query is not None:
        finding = only(site.find(query))
        assert len(finding["table"]["rows"]) <= rows
        seen += column(finding, "Transaction")
        query = next((fact["query"] for fact in finding["more"]), None)
    assert seen == [effect["txHash"] for block in blocks for effect in reversed(block["body"]["txEffects"])]


@pytest.mark.parametrize("start", ["x", "3.x", "3.1.2", "-1", "3."])
def test_a_place_of_transactions_that_is_none_is_said(site: Any, start: str) -> None:
    answer = site.find(f"transactions {start}")
    assert answer["found"] or "42.0" in answer["message"]


def test_the_first_page_has_tips_blocks_and_transactions(site: Any) -> None:
    finding = only(site.find("newest"))
    tips = site.run(site.ask("node_getL2Tips"))
    assert facts(finding)["Proposed"] == str(tips["proposed"]["number"])
    assert facts(finding)["Finalized"] == str(tips["finalized"]["block"]["number"])
    blocks, txs = finding["tables"]
    assert [row[0]["value"] for row in blocks["rows"]] == [str(LAST_BLOCK - place) for place in range(8)]
    assert [row[0]["value"] for row in txs["rows"]] == column(only(site.find("transactions")), "Transaction")[:8]


def test_a_list_of_blocks_has_dates_and_leads_to_each(site: Any) -> None:
    finding = only(site.find("Blocks 3"))
    header = site.run(site.ask("node_getBlockHeader", 3))
    assert column(finding, "Made")[0] == f"@{header['globalVariables']['timestamp']}"
    queries = {cell["query"] for row in finding["table"]["rows"] for cell in row}
    assert {"3", "2"} <= queries


def test_checkpoints_and_epochs_are_those_of_the_public_port(site: Any) -> None:
    first = only(site.find("checkpoints"))
    numbers = list(map(int, column(first, "Checkpoint")))
    assert numbers == sorted(numbers, reverse=True)
    assert numbers
    number = numbers[-1]
    published = site.run(site.ask("node_getCheckpoints", number, 1))[0]
    finding = only(site.find(f"checkpoint {number}"))
    blocks = [block["header"]["globalVariables"]["blockNumber"] for block in published["checkpoint"]["blocks"]]
    assert sorted(map(int, column(finding, "Block"))) == sorted(map(int, blocks))
    assert orjson.loads(finding["documents"][0]["json"])[0] == published
    epoch = facts(finding)["Epoch"]
    assert str(number) in column(only(site.find(f"epoch {epoch}")), "Checkpoint")
    assert epoch in column(only(site.find("epochs")), "Epoch")
    for query in ("checkpoint 99999", "epoch 99999"):
        assert site.find(query)["found"] == []


def test_contracts_and_classes_lead_to_what_they_are(site: Any) -> None:
    contracts = only(site.find("contracts"))
    addresses = column(contracts, "Contract")
    assert "0x" + "5".zfill(64) in addresses
    for address in addresses[:3]:
        assert any(found["kind"] == "contract" for found in site.find(address)["found"])
    classes = column(only(site.find("classes")), "Contract class")
    queries = {cell["query"] for row in contracts["table"]["rows"] for cell in row if cell["name"] == "Class"}
    assert queries <= set(classes)
    assert "FeeJuice" in column(contracts, "Class"), "by name where that is known"
    assert any(found["kind"] == "class" for found in site.find(classes[0])["found"])


def test_published_contracts_are_paged(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = column(only(site.find("classes")), "Contract class")
    monkeypatch.setattr(lists, "PAGE_ROWS", 1)
    query, seen = "classes", []
    while query is not None:
        finding = only(site.find(query))
        seen += column(finding, "Contract class")
        query = finding["more"][0]["query"] if finding["more"] else None
    assert seen == whole


def test_nullifiers_and_note_hashes_are_found_with_their_block(site: Any) -> None:
    for name, kind in (("nullifiers", "nullifier"), ("noteHashes", "note hash")):
        number, effect = body_with(site, name)
        finding = next(found for found in site.find(effect[name][0])["found"] if found["kind"] == kind)
        assert facts(finding)["Block"] == str(number)


def test_private_logs_are_found_by_their_tag(site: Any) -> None:
    _, effect = body_with(site, "privateLogs")
    tag = effect["privateLogs"][0]["fields"][0]
    finding = next(found for found in site.find(tag)["found"] if found["kind"] == "tag")
    assert effect["txHash"] in facts(finding).values()


def test_public_logs_are_found_by_their_first_field_and_each_by_its_place(site: Any) -> None:
    _, effect = body_with(site, "publicLogs")
    tag = effect["publicLogs"][0]["fields"][0]
    finding = next(found for found in site.find(tag)["found"] if found["kind"] == "logs")
    place = column(finding, "Log")[0]
    log = only(site.find(f"log {place}"))
    assert facts(log)["Field 0"] == tag
    block, tx, _ = place.split(".")
    assert site.find(f"log {block}.{tx}.999")["found"] == []


def test_a_transaction_tells_its_fee_in_units_that_people_read(site: Any) -> None:
    _, effect = body_with(site, "nullifiers")
    told = facts(next(found for found in site.find(effect["txHash"])["found"] if found["kind"] == "transaction"))
    fee = int(site.run(site.ask("node_getTxReceipt", effect["txHash"]))["transactionFee"])
    assert told["Fee"] == fee_juice(fee)
    assert told["Result"] == "success"


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (0, "0 fee juice"),
        (10**18, "1 fee juice"),
        (1234 * 10**18 + 5 * 10**17, "1,234.5 fee juice"),
        (7353600000000, "0.000007353… fee juice (7,353,600,000,000 · 10⁻¹⁸)"),
        (1, "0… fee juice (1 · 10⁻¹⁸)"),
    ],
)
def test_amounts_are_exact_or_say_that_they_are_not(units: int, text: str) -> None:
    assert fee_juice(units) == text


def test_the_public_calls_of_a_transaction_have_the_names_that_are_known() -> None:
    record = sample_tx()
    names: dict[bytes, str] = {}
    call = next(fact for fact in facts_of_tx(record, FOUR, names.get) if fact.name.startswith("Public call"))
    selector, _, rest = call.value.partition("(")
    contract = Tx.from_json(record, FOUR).data.public_calls[0].contract_address.hex()
    assert rest.endswith(f") of 0x{contract}")
    assert call.query == "0x" + contract
    names[bytes.fromhex(selector[2:])] = "transfer_in_public"
    (named,) = (fact for fact in facts_of_tx(record, FOUR, names.get) if fact.name == call.name)
    assert named.value == "transfer_in_public(" + rest
    assert facts_of_tx({"data": "AA=="}, FOUR, names.get) == []


@pytest.mark.parametrize("text", ["blocks x", "epochs -1", "contracts 0xzz", "pending zz"])
def test_a_list_that_begins_nowhere_is_said_to_mean_nothing(site: Any, text: str) -> None:
    answer = site.find(text)
    assert answer["found"] == []
    assert answer["message"]


def test_an_empty_pool_is_a_list_without_rows(site: Any) -> None:
    finding = only(site.find("pending"))
    assert finding["title"] == "Pending transactions: 0"
    assert finding["table"]["rows"] == []
