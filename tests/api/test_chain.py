"""Answers of the chain in each set, and how the records of the sets hang together."""

from __future__ import annotations

import base64
import hashlib
import random
import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tests.mempool.pools import word

from fastnode.api.chain import METHODS, methods
from fastnode.api.receipts import FleetStanding, TxKnowledge
from fastnode.bus.transactions import Standing
from fastnode.errors import UpstreamUnavailable
from fastnode.http.limits import Limits
from fastnode.jsonrpc.methods import METHOD_SETS
from fastnode.local_network.transactions import TransactionNotes
from fastnode.view import View

TIP = 106
CHECKPOINTED, PROVEN, FINALIZED = (106, 41), (99, 39), (92, 36)  # block, checkpoint
GENESIS_HASH = "0x117e6b939d3c7895a9f9ca201a7693444d24e96bc81f37cb2af1a5cc51e21cab"
GENESIS_ARCHIVE = "0x2dbb06108e9a86dfd66387eac78e843c558a4c742514c4d1423e306717362435"
TIPS_GENESIS_HASH = "0x2ff681dd7730c7b9e5650c70afa57ee81377792dfc95d98c11817b8c761ff965"
UNKNOWN = "0x" + "0" * 61 + "bad"
ALL_BLOCK_OPTIONS = {"includeTransactions": True, "includeL1PublishInfo": True, "includeAttestations": True}


@pytest.fixture
def release(clients: dict[str, Any]) -> Any:
    return clients["release"]


@pytest.fixture
def development(clients: dict[str, Any]) -> Any:
    return clients["development"]


@pytest.fixture
def both(clients: dict[str, Any]) -> Any:
    return clients["both"]


# ---- tips -------------------------------------------------------------------------------------


def test_the_tips_are_told_in_every_way(development: Any, release: Any) -> None:
    for tip, (block, checkpoint) in {"checkpointed": CHECKPOINTED, "proven": PROVEN, "finalized": FINALIZED}.items():
        assert development.result("node_getBlockNumber", tip) == block
        assert development.result("node_getCheckpointNumber", tip) == checkpoint
        assert development.result("node_getBlock", tip)["number"] == block
        assert development.result("node_getBlock", {"tag": tip})["number"] == block
        assert development.result("node_getCheckpoint", tip)["number"] == checkpoint
        tips = development.result("node_getChainTips")
        assert (tips[tip]["block"]["number"], tips[tip]["checkpoint"]["number"]) == (block, checkpoint)
    assert development.result("node_getBlockNumber") == development.result("node_getBlockNumber", "proposed") == TIP
    assert development.result("node_getCheckpointNumber", "proposed") == CHECKPOINTED[1]
    assert release.result("node_getProvenBlockNumber") == PROVEN[0]
    assert release.result("node_getCheckpointedBlockNumber") == CHECKPOINTED[0]
    assert release.result("node_getCheckpointNumber") == CHECKPOINTED[1]


def test_latest_is_no_chain_tip(development: Any) -> None:
    assert development.error("node_getBlockNumber", "latest")["code"] == -32602
    assert development.error("node_getBlock", {"tag": "latest"})["code"] == -32602
    assert development.result("node_getBlock", "latest")["number"] == TIP


# ---- one block in three forms -----------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 42, 99, 106])
def test_the_development_record_of_a_block_has_the_parts_of_the_release_record(
    release: Any, development: Any, number: int
) -> None:
    block = release.result("node_getBlock", number)
    [checkpointed] = release.result("node_getCheckpointedBlocks", number, 1)
    tips_hash = development.result("node_getBlockData", number)["blockHash"]
    expected = {
        "header": block["header"],
        "archive": block["archive"],
        "hash": tips_hash,
        "checkpointNumber": block["checkpointNumber"],
        "indexWithinCheckpoint": block["indexWithinCheckpoint"],
        "number": number,
    }
    body = {"body": block["body"]}
    l1 = {"l1": {"published": True, **checkpointed["l1"]}}
    attestations = {"attestations": checkpointed["attestations"]}
    for options, added in [
        ((), {}),
        ((None,), {}),
        (({},), {}),
        (({"includeTransactions": False},), {}),
        (({"includeTransactions": True},), body),
        (({"includeL1PublishInfo": True},), l1),
        (({"includeAttestations": True},), attestations),
        ((ALL_BLOCK_OPTIONS,), body | l1 | attestations),
    ]:
        assert development.result("node_getBlock", number, *options) == expected | added
        [listed] = development.result("node_getBlocks", number, 1, *options)
        assert listed == expected | added
    assert release.result("node_getBlockByHash", tips_hash) == block


@pytest.mark.parametrize("number", [0, 1, 42, 106])
def test_both_sets_together_give_the_union_unless_the_call_is_of_the_development_set(
    clients: dict[str, Any], number: int
) -> None:
    of_release = clients["release"].result("node_getBlock", number)
    of_development = clients["development"].result("node_getBlock", number)
    block_hash = of_development["hash"]
    both = clients["both"]
    union = of_development | of_release
    assert both.result("node_getBlock", number) == union
    assert both.result("node_getBlock", block_hash) == union
    assert both.result("node_getBlock", number, None) == union
    for call in ([number, {}], [{"number": number}], [{"hash": block_hash}]):
        assert both.result("node_getBlock", *call) == of_development
    if number:
        assert both.result("node_getBlocks", number, 1) == [union]
        assert both.result("node_getBlocks", number, 1, {}) == [of_development]


def test_both_sets_together_give_the_release_form_for_a_tip_both_know(clients: dict[str, Any]) -> None:
    latest = clients["both"].result("node_getBlock", "latest")
    assert clients["release"].result("node_getBlock", "latest").items() <= latest.items()
    assert "body" not in clients["both"].result("node_getBlock", "proposed")


def test_block_0_is_the_genesis_block(clients: dict[str, Any]) -> None:
    of_release = clients["release"].result("node_getBlock", 0)
    assert of_release["archive"] == {"root": "0x" + "0" * 64, "nextAvailableLeafIndex": 0}
    assert of_release["body"] == {"txEffects": []}
    assert clients["release"].result("node_getBlock", GENESIS_HASH) == of_release
    of_development = clients["development"].result("node_getBlock", 0, ALL_BLOCK_OPTIONS)
    assert of_development["archive"] == {"root": GENESIS_ARCHIVE, "nextAvailableLeafIndex": 1}
    assert of_development["hash"] == GENESIS_HASH
    assert of_development["l1"] == {"published": False}
    assert of_development["attestations"] == []
    assert clients["development"].result("node_getBlock", {"archive": GENESIS_ARCHIVE})["number"] == 0


def test_the_genesis_archive_names_no_block_in_the_release_methods(release: Any) -> None:
    assert release.call("node_getBlockByArchive", GENESIS_ARCHIVE)["result"] is None
    assert release.call("node_getBlockHeaderByArchive", GENESIS_ARCHIVE)["result"] is None


def test_a_block_is_found_by_the_archive_after_it(clients: dict[str, Any]) -> None:
    block = clients["release"].result("node_getBlock", 42)
    root = block["archive"]["root"]
    assert clients["release"].result("node_getBlockByArchive", root) == block
    assert clients["release"].result("node_getBlockHeaderByArchive", root) == block["header"]
    assert clients["development"].result("node_getBlockData", {"archive": root})["header"] == block["header"]
    # A bare field is the hash of a block, else the archive after one.
    development = clients["development"]
    assert development.result("node_getBlock", root) == development.result("node_getBlock", 42)


def test_what_the_chain_does_not_have_is_absent(clients: dict[str, Any]) -> None:
    for client in clients.values():
        for block in (TIP + 1, 10**30, UNKNOWN, TIPS_GENESIS_HASH, "1"):
            assert client.call("node_getBlock", block) == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert client.call("node_getTxEffect", UNKNOWN)["result"] is None
    development = clients["development"]
    for checkpoint in (0, 42, {"slot": 0}, {"slot": 2**40}, {"number": 10**30}):
        assert development.call("node_getCheckpoint", checkpoint)["result"] is None
    for block in ({"number": 107}, {"hash": UNKNOWN}, {"archive": UNKNOWN}):
        assert development.call("node_getBlockData", block)["result"] is None


def test_ranges_end_where_the_chain_ends(clients: dict[str, Any]) -> None:
    release, development = clients["release"], clients["development"]
    assert len(release.result("node_getBlocks", 1, 50)) == 50
    assert len(release.result("node_getBlocks", 100, 50)) == 7
    assert release.result("node_getBlocks", 107, 50) == []
    assert release.result("node_getBlocks", 10**30, 1) == []
    assert release.result("node_getBlocks", "100", 1) == release.result("node_getBlocks", 100, 1)
    assert [c["checkpoint"]["number"] for c in release.result("node_getCheckpoints", 40, 50)] == [40, 41]
    assert development.result("node_getCheckpointsData", {"from": 42, "limit": 5}) == []
    everything = development.result("node_getCheckpointsData", {"from": 0, "limit": 10**9})
    assert [data["checkpointNumber"] for data in everything] == list(range(1, 42))


def test_only_checkpointed_leaves_out_proposed_blocks(development: Any) -> None:
    everything = development.result("node_getBlocks", 90, 50)
    assert development.result("node_getBlocks", 90, 50, {"onlyCheckpointed": True}) == everything
    assert development.result("node_getBlocks", 90, 50, {"onlyCheckpointed": False}) == everything


def test_headers_are_those_of_the_blocks(release: Any) -> None:
    assert release.result("node_getBlockHeader") == release.result("node_getBlockHeader", "latest")
    assert release.result("node_getBlockHeader", None) == release.result("node_getBlockHeader", TIP)
    assert release.result("node_getBlockHeader", 42) == release.result("node_getBlock", 42)["header"]


# ---- checkpoints ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 12, 41])
def test_the_development_record_of_a_checkpoint_has_the_parts_of_the_release_record(
    clients: dict[str, Any], number: int
) -> None:
    release, development = clients["release"], clients["development"]
    [published] = release.result("node_getCheckpoints", number, 1)
    checkpoint = published["checkpoint"]
    [data] = development.result("node_getCheckpointsData", {"from": number, "limit": 1})
    first_block = checkpoint["blocks"][0]["header"]["globalVariables"]["blockNumber"]
    expected = {
        "number": number,
        "header": checkpoint["header"],
        "archive": checkpoint["archive"],
        "checkpointOutHash": data["checkpointOutHash"],
        "startBlock": first_block,
        "blockCount": len(checkpoint["blocks"]),
        "feeAssetPriceModifier": checkpoint["feeAssetPriceModifier"],
    }
    assert development.result("node_getCheckpoint", number) == expected
    assert development.result("node_getCheckpoint", {"number": number}) == expected
    assert development.result("node_getCheckpoint", {"slot": checkpoint["header"]["slotNumber"]}) == expected
    options = {"includeBlocks": True, **ALL_BLOCK_OPTIONS}
    full = development.result("node_getCheckpoint", number, options)
    assert development.result("node_getCheckpoints", number, 1, options) == [full]
    assert full.pop("l1") == {"published": True, **published["l1"]}
    assert full.pop("attestations") == published["attestations"]
    for block, of_release in zip(full.pop("blocks"), checkpoint["blocks"], strict=True):
        assert {key: block[key] for key in of_release} == of_release
        assert set(block) - set(of_release) == {"hash", "number"}
    assert full == expected
    plain = development.result("node_getCheckpoint", number, {"includeBlocks": True})
    assert "body" not in plain["blocks"][0]
    assert clients["both"].result("node_getCheckpoints", number, 1) == [published | expected]
    assert clients["both"].result("node_getCheckpoints", number, 1, {}) == [expected]


def test_checkpoint_data_of_the_sets_differ_in_one_key(clients: dict[str, Any]) -> None:
    for epoch in range(18):
        of_release = clients["release"].result("node_getCheckpointsDataForEpoch", epoch)
        of_development = clients["development"].result("node_getCheckpointsData", {"epoch": epoch})
        for data in of_development:
            data.pop("feeAssetPriceModifier")
        assert of_release == of_development


# ---- transactions -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_local", [False, True], ids=["another builds", "local network"])
def test_a_receipt_of_what_is_not_in_the_pool_asks_the_fleet(
    make_client: Callable[..., Any], view: View, is_local: bool
) -> None:
    asked: list[str] = []
    taken, refused, away, gone, made_room = (word(number).hex() for number in range(1, 6))
    standings = {
        taken: Standing(is_pending=True, reason="on its way"),
        made_room: Standing(is_pending=True, reason="another node has it"),
        refused: Standing(is_pending=False, reason="refused upstream"),
    }

    def ask(tx_hash: bytes) -> FleetStanding | None:
        assert threading.current_thread() is not threading.main_thread()
        asked.append(tx_hash.hex())
        if tx_hash.hex() == away:
            raise UpstreamUnavailable("the bus does not answer")
        return standings.get(tx_hash.hex())

    departures = {word(4): "expired", word(5): "replaced by one that pays more"}
    known = TxKnowledge(departure_of=departures.get, ask_fleet=ask)
    client = make_client(methods(known_txs=known, tx_notes=TransactionNotes() if is_local else None), view=view)
    receipts = {
        each: client.result("node_getTxReceipt", "0x" + each) for each in (taken, refused, away, gone, made_room)
    }
    unknown = client.result("node_getTxReceipt", UNKNOWN)
    effect = client.result("node_getBlock", 42)["body"]["txEffects"][0]
    assert client.result("node_getTxReceipt", effect["txHash"])["blockNumber"] == 42
    assert receipts[taken] == {"txHash": "0x" + taken, "status": "pending", "error": "on its way"}
    dropped = {"status": "dropped", "error": "Tx dropped by P2P node"}
    assert receipts[refused] == {"txHash": "0x" + refused} | dropped | {
        "error": "Tx dropped by P2P node: refused upstream"
    }
    assert receipts[away] == {"txHash": "0x" + away} | dropped | {"unknownHere": True}
    assert receipts[gone] == {"txHash": "0x" + gone} | dropped | {"error": "Tx dropped by P2P node: expired"}
    assert receipts[made_room] == {"txHash": "0x" + made_room, "status": "pending", "error": "another node has it"}
    assert unknown == {"txHash": UNKNOWN} | dropped | {"unknownHere": True}
    assert asked == [taken, refused, away, gone, made_room, UNKNOWN[2:]], "not for what a block has"


@pytest.mark.parametrize("seed", range(20))
def test_a_receipt_tells_what_came_or_left_while_the_fleet_was_asked(
    make_client: Callable[..., Any], view: View, seed: int
) -> None:
    dice, waiting, departed = random.Random(seed), set[bytes](), dict[bytes, str]()
    moves: dict[str, tuple[str, str | None]] = {
        "nothing": ("dropped", "Tx dropped by P2P node: a node had taken it"),
        "comes": ("pending", None),
        "comes and leaves": ("dropped", "Tx dropped by P2P node: expired"),
    }

    def ask(tx_hash: bytes) -> FleetStanding | None:
        if move == "comes":
            waiting.add(tx_hash)
        elif move == "comes and leaves":
            departed[tx_hash] = "expired"
        if move != "nothing" and dice.random() < 0.3:
            raise UpstreamUnavailable("the bus does not answer")
        return Standing(is_pending=False, reason="a node had taken it")

    known = TxKnowledge(is_pending=waiting.__contains__, departure_of=departed.get, ask_fleet=ask)
    client = make_client(methods(known_txs=known), view=view)
    for number in range(1, 11):
        move = dice.choice(list(moves))
        receipt = client.result("node_getTxReceipt", "0x" + word(number).hex())
        assert (receipt["status"], receipt.get("error")) == moves[move]


def test_a_receipt_asks_the_chain_and_then_the_pool(make_client: Callable[..., Any], view: View) -> None:
    pending = bytes.fromhex(UNKNOWN[2:])
    asked = []

    def is_pending(tx_hash: bytes) -> bool:
        asked.append(tx_hash)
        return tx_hash == pending

    client = make_client(methods(known_txs=TxKnowledge(is_pending=is_pending)), view=view)
    assert client.result("node_getTxReceipt", UNKNOWN) == {"txHash": UNKNOWN, "status": "pending"}
    waiting = TxKnowledge(is_pending=pending.__eq__, waiting_reason=lambda tx_hash: "it waits")
    untaken = make_client(methods(known_txs=waiting), view=view)
    assert untaken.result("node_getTxReceipt", UNKNOWN) == {"txHash": UNKNOWN, "status": "pending", "error": "it waits"}
    dropped = client.result("node_getTxReceipt", "0x" + "0" * 64)
    unknown = {"txHash": "0x" + "0" * 64, "status": "dropped", "error": "Tx dropped by P2P node"}
    assert dropped == unknown | {"unknownHere": True}
    assert (
        make_client(methods(), method_set="release", view=view).result("node_getTxReceipt", "0x" + "0" * 64) == unknown
    )
    effect = client.result("node_getBlock", 42)["body"]["txEffects"][0]
    assert client.result("node_getTxReceipt", effect["txHash"])["blockNumber"] == 42
    assert asked == [pending, bytes(32)]
    assert client.result("node_getTxEffect", effect["txHash"])["data"] == effect


# ---- messages ---------------------------------------------------------------------------------


def sha(left: bytes, right: bytes) -> bytes:
    return b"\0" + hashlib.sha256(left + right).digest()[:31]


def root_of(message: str, witness: dict[str, Any]) -> str:
    path = base64.b64decode(witness["siblingPath"])
    count = int.from_bytes(path[:4], "big")
    siblings = [path[4 + 32 * place : 36 + 32 * place] for place in range(count)]
    assert len(path) == 4 + 32 * count
    node, index = bytes.fromhex(message[2:]), int(witness["leafIndex"])
    for sibling in siblings:
        node = sha(sibling, node) if index & 1 else sha(node, sibling)
        index >>= 1
    assert index == 0
    return "0x" + node.hex()


def messages_of_proven_txs(client: Any) -> list[tuple[str, int, list[str]]]:
    """Transactions with messages: hash, epoch, messages."""
    found = []
    for checkpoint in client.result("node_getCheckpoints", 1, PROVEN[1]):
        epoch = checkpoint["checkpoint"]["header"]["slotNumber"] // 4
        for block in checkpoint["checkpoint"]["blocks"]:
            for effect in block["body"]["txEffects"]:
                if effect["l2ToL1Msgs"]:
                    found.append((effect["txHash"], epoch, effect["l2ToL1Msgs"]))
    return found


def test_every_message_to_l1_has_a_witness_for_the_root_of_its_epoch(clients: dict[str, Any]) -> None:
    transactions = messages_of_proven_txs(clients["release"])
    assert sum(len(messages) for _, _, messages in transactions) > 10
    for tx_hash, epoch, messages in transactions:
        checkpoints = clients["release"].result("node_getCheckpointsDataForEpoch", epoch)
        for index, message in enumerate(messages):
            witness = clients["development"].result("node_getL2ToL1MembershipWitness", tx_hash, message, index)
            assert witness["epochNumber"] == epoch
            assert witness["numCheckpointsInEpoch"] == len(checkpoints)
            assert witness["root"] == checkpoints[-1]["header"]["epochOutHash"]
            assert root_of(message, witness) == witness["root"]


def test_a_message_of_a_transaction_must_be_named_without_doubt(development: Any, release: Any) -> None:
    transactions = messages_of_proven_txs(release)
    tx_hash, _, [message, *_] = next(entry for entry in transactions if len(entry[2]) == 3 and len(set(entry[2])) == 1)
    name = "node_getL2ToL1MembershipWitness"
    assert development.error(name, tx_hash, message) == {
        "code": -32000,
        "message": f"Multiple messages with the same value {message} found in tx (indices: 0, 1, 2). "
        "Provide messageIndexInTx to disambiguate.",
    }
    places = [development.result(name, tx_hash, message, index)["leafIndex"] for index in range(3)]
    assert len(set(places)) == 3
    mismatch = development.error(name, tx_hash, message, 3)
    assert mismatch["message"] == f"Message at index 3 in tx does not match the expected message {message}"
    assert development.call(name, tx_hash, UNKNOWN) == {"jsonrpc": "2.0", "id": 1, "result": None}


def test_there_is_no_witness_before_the_epoch_is_proven_that_far(development: Any, release: Any) -> None:
    newest = release.result("node_getBlock", TIP)["body"]["txEffects"][0]["txHash"]
    for tx_hash in (newest, UNKNOWN):
        assert development.call("node_getL2ToL1MembershipWitness", tx_hash, UNKNOWN) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": None,
        }


def test_messages_to_l1_are_listed_by_checkpoint_block_and_transaction(both: Any, release: Any) -> None:
    for epoch in range(18):
        expected = [
            [
                [effect["l2ToL1Msgs"] for effect in block["body"]["txEffects"]]
                for block in release.result("node_getBlocks", data["startBlock"], data["blockCount"])
            ]
            for data in release.result("node_getCheckpointsDataForEpoch", epoch)
        ]
        assert both.result("node_getL2ToL1Messages", epoch) == expected


# ---- the node ---------------------------------------------------------------------------------


def test_the_node_is_ready_once_it_has_a_chain(make_client: Callable[..., Any], view: View) -> None:
    assert make_client(METHODS).result("node_isReady") is False
    assert make_client(METHODS, view=view).result("node_isReady") is True
    assert make_client(methods(is_ready=lambda: False), view=view).result("node_isReady") is False


def test_without_a_chain_every_other_method_says_so(make_client: Callable[..., Any]) -> None:
    error = make_client(METHODS).error("node_getL2Tips")
    assert error == {"code": -32000, "message": "The node has not loaded its chain yet"}


def test_the_parts_of_the_node_info_are_told_one_by_one(both: Any) -> None:
    info = both.result("node_getNodeInfo")
    assert both.result("node_getNodeVersion") == info["nodeVersion"] == "4.1.2"
    assert both.result("node_getVersion") == info["rollupVersion"]
    assert both.result("node_getChainId") == info["l1ChainId"]
    assert both.result("node_getL1ContractAddresses") == info["l1ContractAddresses"]
    assert both.result("node_getProtocolContractAddresses") == info["protocolContractAddresses"]


# ---- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["node_getBlocks", "node_getCheckpoints", "node_getCheckpointedBlocks"])
def test_a_range_gives_up_as_soon_as_it_is_too_large(make_client: Callable[..., Any], view: View, method: str) -> None:
    client = make_client(METHODS, view=view, limits=Limits(response_bytes_max=100_000))
    assert client.error(method, 1, 50)["data"] == {"code": "RESPONSE_TOO_LARGE", "limit": 100_000}


def test_every_method_has_a_summary_and_a_result_type() -> None:
    for method in METHODS:
        assert method.summary.endswith(".")
        signatures = [signature for name in METHOD_SETS if (signature := method.signature(name)) is not None]
        assert signatures
        assert all(signature.result for signature in signatures)


def test_every_answer_is_compact_json(both: Any) -> None:
    for method, params in [("node_getBlock", [42]), ("node_getCheckpoints", [1, 2]), ("node_getNodeInfo", [])]:
        body = both.send(orjson.dumps({"id": 1, "method": method, "params": params})).text
        assert orjson.dumps(orjson.loads(body)) == body
