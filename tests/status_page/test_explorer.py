"""Findings of the explorer about numbers, hashes and addresses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from tests.status_page.conftest import LAST_BLOCK

from fastnode.api.chain import METHODS
from fastnode.jsonrpc.methods import Method, MethodTable, Parameter, common
from fastnode.protocol.releases import FOUR
from fastnode.status_page.effects import contract_fact, tables_of
from fastnode.status_page.explorer import DOCUMENT_MAX, Explorer
from fastnode.status_page.findings import Fact
from fastnode.values.field_elements import FIELD, TX_HASH

CLASS_REGISTRY = "0x" + "3".zfill(64)
FEE_JUICE = "0x" + "5".zfill(64)
#: Knows no artifact.
NAMELESS: Any = SimpleNamespace(
    release=FOUR, contract=lambda _address: None, note_keys=list, leaf_slots=lambda _contracts: {}
)
#: Effects that no transaction of the chain has.
NOT_RECORDED = {"Messages to L1"}


def only(answer: dict[str, Any]) -> dict[str, Any]:
    (finding,) = answer["found"]
    result: dict[str, Any] = finding
    return result


def facts(finding: dict[str, Any]) -> dict[str, str]:
    return {fact["name"]: fact["value"] for fact in finding["facts"]}


@pytest.mark.parametrize("text", ["7", " 7 ", "latest", "Proposed", "proven", "0"])
def test_a_number_or_the_name_of_a_tip_is_a_block(site: Any, text: str) -> None:
    finding = only(site.find(text))
    assert finding["kind"] == "block"
    number = finding["block"]
    assert finding["documents"][0]["method"] == "node_getBlockHeader"
    assert orjson.loads(finding["documents"][0]["json"]) == site.run(site.ask("node_getBlockHeader", number))
    if text.strip().isdigit():
        assert number == int(text)


def test_a_block_is_found_by_its_hash_and_by_its_archive_root(site: Any) -> None:
    block = site.run(site.ask("node_getBlock", 9))
    for text in (block["hash"], block["hash"][2:], block["hash"].upper().replace("X", "x"), block["archive"]["root"]):
        finding = only(site.find(text))
        assert (finding["kind"], finding["title"]) == ("block", "Block 9")
    assert facts(finding)["Hash"] == block["hash"]


def test_a_block_leads_to_its_neighbours_and_transactions(site: Any) -> None:
    number, block = next(
        (number, block)
        for number in range(1, LAST_BLOCK)
        if (block := site.run(site.ask("node_getBlock", number)))["body"]["txEffects"]
    )
    links = [fact["query"] for fact in only(site.find(str(number)))["facts"] if fact["query"]]
    tx_hash = block["body"]["txEffects"][0]["txHash"]
    assert {str(number - 1), str(number + 1), tx_hash} <= set(links)

    finding = only(site.find(tx_hash))
    assert (finding["kind"], facts(finding)["Block"]) == ("transaction", str(number))
    receipt, effect = (orjson.loads(document["json"]) for document in finding["documents"])
    assert receipt == site.run(site.ask("node_getTxReceipt", tx_hash))
    assert effect == site.run(site.ask("node_getTxEffect", tx_hash))


LISTS = {
    "Nullifiers": "nullifiers",
    "Note hashes": "noteHashes",
    "Public writes": "publicDataWrites",
    "Public logs": "publicLogs",
    "Private logs": "privateLogs",
    "Messages to L1": "l2ToL1Msgs",
    "Published classes": "contractClassLogs",
}


def test_effects_of_every_transaction_are_tables_whose_links_lead_on(site: Any) -> None:
    seen: set[str] = set()
    for number in range(1, LAST_BLOCK + 1):
        for effect in site.run(site.ask("node_getBlock", number))["body"]["txEffects"]:
            tables = only(site.find(effect["txHash"]))["tables"]
            shown = {table["title"].partition(":")[0]: len(table["rows"]) for table in tables}
            assert shown == {title: len(effect[key]) for title, key in LISTS.items() if effect[key]}
            for table in tables:
                assert all([cell["name"] for cell in row] == table["columns"] for row in table["rows"])
            for query in {
                row[-1]["query"] or row[1]["query"] or row[0]["query"] for table in tables for row in table["rows"][:1]
            }:
                assert query is None or site.find(query)["found"], query
            seen |= set(shown)
    assert seen == set(LISTS) - NOT_RECORDED


def test_contracts_that_all_networks_have_are_named_in_tables() -> None:
    assert contract_fact(CLASS_REGISTRY, NAMELESS) == Fact("Contract", "Class registry", CLASS_REGISTRY)
    other = "0x" + "7".zfill(64)
    assert contract_fact(other, NAMELESS) == Fact("Contract", other, other)


def test_of_a_long_list_of_effects_the_first_are_shown() -> None:
    (table,) = tables_of({"nullifiers": [FEE_JUICE] * 150}, 3, 0, NAMELESS)
    assert (table.title, len(table.rows)) == ("Nullifiers: 150, the first 100", 100)


def test_a_whole_block_is_what_the_public_port_answers(site: Any) -> None:
    assert site.json("status-page/block?number=3") == site.run(site.ask("node_getBlock", 3))


def test_a_contract_is_found_by_its_address_and_leads_to_its_class(site: Any) -> None:
    for text in (FEE_JUICE, "0x5"):
        finding = next(item for item in site.find(text)["found"] if item["kind"] == "contract")
        assert facts(finding)["Address"] == FEE_JUICE
    instance = site.run(site.ask("node_getContract", FEE_JUICE))
    assert orjson.loads(finding["documents"][0]["json"]) == instance
    class_id = facts(finding)["Class"]
    found = only(site.find(class_id))
    assert found["kind"] == "class"
    (document,) = found["documents"]
    assert document["size"] > 1000
    assert orjson.loads(document["json"])["id"] == class_id


def test_public_logs_are_found_by_who_emitted_them(site: Any) -> None:
    logs = site.run(site.ask("node_getPublicLogs", {"fromBlock": 1, "toBlock": LAST_BLOCK + 1}))["logs"]
    if not logs:
        pytest.skip("the short chain has no public logs")
    address = logs[0]["log"]["contractAddress"]
    finding = next(item for item in site.find(address)["found"] if item["kind"] == "logs")
    shown = orjson.loads(finding["documents"][0]["json"])["logs"]
    assert shown == [log for log in logs if log["log"]["contractAddress"] == address][: len(shown)]


def test_a_slot_of_public_storage_is_read_at_the_newest_block(site: Any) -> None:
    for text in (f"{FEE_JUICE}:1", f"{FEE_JUICE} 0x1", "0x5 : 1", f"{FEE_JUICE}/1"):
        finding = only(site.find(text))
        assert finding["kind"] == "storage"
        assert facts(finding)["Value"] == site.run(site.ask("node_getPublicStorageAt", "latest", FEE_JUICE, "0x1"))


def test_a_message_from_l1_is_found(site: Any) -> None:
    messages = [
        message for number in range(1, 9) for message in site.run(site.ask("fastnode_getL1ToL2Messages", number)) or ()
    ]
    if not messages:
        pytest.skip("the short chain has no messages")
    assert only(site.find(messages[0]))["kind"] == "message"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Enter a block number, a hash, an address, or address:slot."),
        ("9999", f"There is no block 9999 yet; the newest is {LAST_BLOCK}."),
        ("hello", "This is no block number, a hash, an address, or address:slot."),
        ("0x" + "ff" * 32, "This is no block number, a hash, an address, or address:slot."),
        ("0x" + "12" * 32, "Nothing on this chain has this hash or address."),
        ("<script>alert(1)</script>", "This is no block number, a hash, an address, or address:slot."),
        ("1" * 5000, "Enter a block number, a hash, an address, or address:slot."),
        ("\x00\ud7ff\ufffe ü", "This is no block number, a hash, an address, or address:slot."),
        ("0x:0x", "This is no block number, a hash, an address, or address:slot."),
    ],
)
def test_what_means_nothing_is_said_to_mean_nothing(site: Any, text: str, message: str) -> None:
    answer = site.find(text)
    assert (answer["found"], answer["message"]) == ([], message)


def test_bytes_that_are_no_text_are_no_query(site: Any) -> None:
    assert site.json("status-page/find?q=%ff%fe%80")["found"] == []
    assert site.json("status-page/find?" + "&".join(f"a{number}=1" for number in range(50)))["found"] == []


def test_a_transaction_of_the_pool_is_found_with_its_receipt(site: Any) -> None:
    pending = bytes([7]) * 32

    def method(name: str, answer: bytes) -> Method:
        signature = common("Tx", Parameter("txHash", TX_HASH), may_be_absent=True)
        handler = lambda _call, tx_hash: answer if tx_hash == pending else None  # noqa: E731
        return Method(name=name, summary="", handler=handler, **signature)

    table = MethodTable([method("node_getTxByHash", b'{"a":1}'), method("node_getTxReceipt", b'{"status":"pending"}')])
    finding = only(orjson.loads(Explorer(table).find(site.node.view, "0x" + pending.hex())))
    assert (finding["kind"], finding["title"]) == ("transaction", "Pending transaction")
    assert [document["json"] for document in finding["documents"]] == ['{"status":"pending"}', '{"a":1}']


def test_a_node_of_5_x_shows_the_same_although_it_answers_other_methods(site: Any) -> None:
    older, newer = (Explorer(MethodTable(METHODS, name)).find(site.node.view, "5") for name in ("both", "5.x"))
    assert orjson.loads(newer)["found"]
    assert newer == older


def test_a_document_that_is_too_long_is_only_named(site: Any) -> None:
    table = MethodTable(
        [
            Method(
                name="node_getContractClass",
                summary="",
                handler=lambda _call, _id: b'"' + b"x" * DOCUMENT_MAX + b'"',
                **common("string", Parameter("id", FIELD)),
            )
        ]
    )
    (document,) = only(orjson.loads(Explorer(table).find(site.node.view, "0x1234")))["documents"]
    assert (document["json"], document["size"]) == (None, DOCUMENT_MAX + 2)


def test_a_node_without_a_chain_says_so() -> None:
    answer = orjson.loads(Explorer(MethodTable([])).find(None, "1"))
    assert answer["message"] == "The node has not loaded its chain yet."
