"""The statements of the interface, put to a running node one by one: what each method takes, gives, and refuses.

Each row is a statement, a call, and what must hold of the answer; ``ABSENT`` is an answer without a result.  How the
answers of all recorded questions look is compared elsewhere (tests/comparison); this is the interface as described.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import ADMIN_KEY, ADMIN_KEY_HASH, NodeProcess

TIP, CHECKPOINT, PROVEN = 106, 41, 99
BLOCK_HASH = "0x1730b2548743bd426f8a391bb28b763d4fa41e12f74215e9eadaa72bd66a2392"
ARCHIVE = "0x25aa5a3162b11221dab2a8caef2e5003902c2723f13cd81271f26ba57a8cb524"
TX = "0x0b0d8ebbbc985a4ffac154d94ecd800a0a634fc97dab711e3475f497841794d0"
NULLIFIER = "0x2c43235d8e6ecc57d03d39b5610418a687473cca34aceba4293b05cb13563a4c"
NOTE_HASH = "0x0221c1a898aea7eb85a2ed1ed9ad609bc4558e70d7ec74283f5075841481251b"
MESSAGE = "0x0084da7627506624c64a17aa5479d06f9d043a440afa9ffcaadccae796dc5f8f"
PRIVATE_TAG = "0x1a7e1badb79abdd38c684b3c8306ffe7ecb33c69e3380d9855730aaaa83a21a8"
PUBLIC_CONTRACT = "0x033be7d09938773bef34592cabf9486f979583d5af495c0176ffef9a94b8da19"
PUBLIC_TAG = f"0x{10:064x}"
CONTRACT = "0x007cde2b6aac738cd713b072a057bcfcba4c0404e9e698b31166ac45c2f96608"
CLASS = "0x001c8fd1368b29a96a7ca0d7c5af1a5f75bfa33f387ea8afcc2266035014081f"
UNKNOWN = f"0x{0x0BADC0DE << 200:064x}"
ABSENT = "nothing"


class Row(NamedTuple):
    statement: str
    method: str
    params: list[Any]
    #: What the result is, or a test of it; ABSENT for none, an int below 0 for the code of an error.
    expected: Any


def number(value: Any) -> bool:
    return type(value) is int


def bigint(value: Any) -> bool:
    return isinstance(value, str) and value.isdigit()


def field_element(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"0x[0-9a-f]{64}", value) is not None


def record(*members: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and set(members) <= value.keys()


def several(test: Callable[[Any], bool], count: int | None = None) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(test, value)) and count in (None, len(value))


def fees(value: Any) -> bool:
    return isinstance(value, dict) and bigint(value["feePerDaGas"]) and bigint(value["feePerL2Gas"])


def flat_tip(value: Any) -> bool:
    return number(value["number"]) and field_element(value["hash"])


def tips(value: Any) -> bool:
    settled = ("checkpointed", "proven", "finalized")
    inner = [value[name][part] for name in settled for part in ("block", "checkpoint")]
    return set(value) == {"proposed", *settled} and flat_tip(value["proposed"]) and all(map(flat_tip, inner))


def pages(count: int) -> Callable[[Any], bool]:
    return lambda value: [len(page) for page in value] == [count]


COMMON = [
    Row("the receipt of a mined transaction", "node_getTxReceipt", [TX], record("txHash", "status", "blockNumber")),
    Row("the receipt of an unknown one", "node_getTxReceipt", [UNKNOWN], lambda value: value["status"] == "dropped"),
    Row("an effect with its block", "node_getTxEffect", [TX], record("data", "l2BlockNumber", "l2BlockHash")),
    Row("no effect", "node_getTxEffect", [UNKNOWN], ABSENT),
    Row("a mined transaction is not pending", "node_getTxByHash", [TX], ABSENT),
    Row("pending ones that exist", "node_getTxsByHash", [[TX, UNKNOWN]], []),
    Row("pending transactions", "node_getPendingTxs", [], []),
    Row("pending transactions, a limit", "node_getPendingTxs", [5], []),
    Row("pending transactions, behind one", "node_getPendingTxs", [5, UNKNOWN], []),
    Row("count of pending transactions", "node_getPendingTxCount", [], 0),
    Row("storage by the contract's slot", "node_getPublicStorageAt", ["latest", CONTRACT, UNKNOWN], field_element),
    Row("storage at a block", "node_getPublicStorageAt", [2, CONTRACT, UNKNOWN], field_element),
    Row("storage at a hash", "node_getPublicStorageAt", [BLOCK_HASH, CONTRACT, UNKNOWN], field_element),
    Row("world state", "node_getWorldStateSyncStatus", [], record("latestBlockNumber", "latestBlockHash")),
    Row(
        "indexes with their blocks, or nothing",
        "node_findLeavesIndexes",
        ["latest", 0, [NULLIFIER, UNKNOWN]],
        lambda value: record("data", "l2BlockNumber", "l2BlockHash")(value[0]) and value[1] is None,
    ),
    Row("a nullifier", "node_getNullifierMembershipWitness", ["latest", NULLIFIER], record("index", "leafPreimage")),
    Row("no nullifier", "node_getNullifierMembershipWitness", ["latest", UNKNOWN], ABSENT),
    Row(
        "a lower nullifier points beyond",
        "node_getLowNullifierMembershipWitness",
        ["latest", UNKNOWN],
        lambda value: value["leafPreimage"]["leaf"]["nullifier"] < UNKNOWN < value["leafPreimage"]["nextKey"],
    ),
    Row("a public slot", "node_getPublicDataWitness", ["latest", "0x01"], record("index", "leafPreimage")),
    Row("a block hash in the archive", "node_getBlockHashMembershipWitness", ["latest", BLOCK_HASH], str),
    Row("a block hash later than the archive", "node_getBlockHashMembershipWitness", [2, BLOCK_HASH], ABSENT),
    Row("a note hash", "node_getNoteHashMembershipWitness", ["latest", NOTE_HASH], str),
    Row("no note hash", "node_getNoteHashMembershipWitness", ["latest", UNKNOWN], ABSENT),
    Row(
        "a message: its index and a path",
        "node_getL1ToL2MessageMembershipWitness",
        ["latest", MESSAGE],
        lambda value: len(value) == 2 and bigint(value[0]) and isinstance(value[1], str),
    ),
    Row("no message", "node_getL1ToL2MessageMembershipWitness", ["latest", UNKNOWN], ABSENT),
    Row("the checkpoint of a message", "node_getL1ToL2MessageCheckpoint", [MESSAGE], 8),
    Row("no checkpoint of a message", "node_getL1ToL2MessageCheckpoint", [UNKNOWN], ABSENT),
    Row("messages to L1, by checkpoint, block, transaction", "node_getL2ToL1Messages", [0], [[[[]]], [[[]]], [[[]]]]),
    Row("messages of an epoch that there is not", "node_getL2ToL1Messages", [999], []),
    Row("public logs", "node_getPublicLogs", [{"fromBlock": 1, "toBlock": 100}], record("logs", "maxLogsHit")),
    Row("class logs", "node_getContractClassLogs", [{"fromBlock": 1, "toBlock": 100}], record("logs", "maxLogsHit")),
    Row("ten logs of a private tag", "node_getPrivateLogsByTags", [[PRIVATE_TAG]], pages(10)),
    Row("page 0 is the first", "node_getPrivateLogsByTags", [[PRIVATE_TAG], 0], pages(10)),
    Row("one array for each tag, in order", "node_getPrivateLogsByTags", [[UNKNOWN, UNKNOWN]], [[], []]),
    Row("a reference block that is there", "node_getPrivateLogsByTags", [[UNKNOWN], 0, BLOCK_HASH], [[]]),
    Row("a reference block that is not", "node_getPrivateLogsByTags", [[UNKNOWN], 0, UNKNOWN], -32000),
    Row("ten logs of a public tag", "node_getPublicLogsByTagsFromContract", [PUBLIC_CONTRACT, [PUBLIC_TAG]], pages(10)),
    Row("of another contract none", "node_getPublicLogsByTagsFromContract", [CONTRACT, [PUBLIC_TAG]], [[]]),
    Row(
        "a reference block that is not, public",
        "node_getPublicLogsByTagsFromContract",
        [PUBLIC_CONTRACT, [PUBLIC_TAG], 0, UNKNOWN],
        -32000,
    ),
    Row("a class", "node_getContractClass", [CLASS], record("id", "artifactHash", "packedBytecode")),
    Row("no class", "node_getContractClass", [UNKNOWN], ABSENT),
    Row("an instance", "node_getContract", [CONTRACT], record("address", "salt", "deployer")),
    Row("no instance", "node_getContract", [UNKNOWN], ABSENT),
    Row("fees now", "node_getCurrentMinFees", [], fees),
    Row("the highest priority fees", "node_getMaxPriorityFees", [], fees),
    Row("readiness is a boolean, and this chain takes nothing", "node_isReady", [], False),
    Row(
        "the node",
        "node_getNodeInfo",
        [],
        record("nodeVersion", "l1ChainId", "rollupVersion", "l1ContractAddresses", "protocolContractAddresses"),
    ),
    Row("package version", "node_getNodeVersion", [], "4.1.2"),
    Row("rollup version", "node_getVersion", [], number),
    Row("chain of L1", "node_getChainId", [], 31337),
    Row("addresses on L1", "node_getL1ContractAddresses", [], record("rollupAddress", "registryAddress")),
    Row("protocol contracts", "node_getProtocolContractAddresses", [], record("classRegistry", "feeJuice")),
    Row("no record without a network", "node_getEncodedEnr", [], ABSENT),
    Row("signatures are registered", "node_registerContractFunctionSignatures", [["transfer(Field,Field)"]], ABSENT),
    Row("elements of setup", "node_getAllowedPublicSetup", [], several(record("selector"))),
    Row("a transaction that is none", "node_sendTx", [{"data": "0x00"}], -32602),
    Row("validity of what is none", "node_isValidTx", [{"data": "0x00"}], -32602),
    Row("simulation of what is none", "node_simulatePublicCalls", [{"data": "0x00"}], -32602),
]
RELEASE = [
    Row("newest block", "node_getBlockNumber", [], TIP),
    Row("newest proven block", "node_getProvenBlockNumber", [], PROVEN),
    Row("newest checkpointed block", "node_getCheckpointedBlockNumber", [], TIP),
    Row("newest checkpoint", "node_getCheckpointNumber", [], CHECKPOINT),
    Row("tips of 4.0 and later", "node_getL2Tips", [], tips),
    Row("a block by number", "node_getBlock", [17], record("header", "body", "archive")),
    Row("a block by latest", "node_getBlock", ["latest"], record("header", "body", "archive")),
    Row("a block by its hash", "node_getBlock", [BLOCK_HASH], record("header", "body", "archive")),
    Row("no block", "node_getBlock", [9999], ABSENT),
    Row("by hash", "node_getBlockByHash", [BLOCK_HASH], record("header", "body")),
    Row("none by hash", "node_getBlockByHash", [UNKNOWN], ABSENT),
    Row("by archive", "node_getBlockByArchive", [ARCHIVE], lambda value: value["archive"]["root"] == ARCHIVE),
    Row("none by archive", "node_getBlockByArchive", [UNKNOWN], ABSENT),
    Row("only blocks that are there", "node_getBlocks", [TIP - 1, 10], several(record("header"), 2)),
    Row("no blocks", "node_getBlocks", [9999, 10], []),
    Row("a header", "node_getBlockHeader", [4], record("globalVariables", "lastArchive")),
    Row(
        "the newest header",
        "node_getBlockHeader",
        [],
        lambda value: value["globalVariables"]["blockNumber"] == TIP,
    ),
    Row("a header by archive", "node_getBlockHeaderByArchive", [ARCHIVE], record("globalVariables")),
    Row("none", "node_getBlockHeaderByArchive", [UNKNOWN], ABSENT),
    Row("checkpoints", "node_getCheckpoints", [1, 3], several(record("checkpoint", "attestations", "l1"), 3)),
    Row("checkpointed blocks", "node_getCheckpointedBlocks", [1, 3], several(record("checkpointNumber", "block"), 3)),
    Row("checkpoints of an epoch", "node_getCheckpointsDataForEpoch", [0], several(record("header"), 3)),
    Row("a message is synced", "node_isL1ToL2MessageSynced", [MESSAGE], True),
    Row("a message is not", "node_isL1ToL2MessageSynced", [UNKNOWN], False),
]
DEVELOPMENT = [
    Row("newest block", "node_getBlockNumber", [], TIP),
    Row("the block of a tip", "node_getBlockNumber", ["proven"], PROVEN),
    Row("newest checkpoint", "node_getCheckpointNumber", [], CHECKPOINT),
    Row("proposed checkpoints are confirmed ones", "node_getCheckpointNumber", ["proposed"], CHECKPOINT),
    Row("likewise checkpointed", "node_getCheckpointNumber", ["checkpointed"], CHECKPOINT),
    Row("tips", "node_getChainTips", [], record("proposed", "checkpointed", "proven", "finalized")),
    Row("a block without its parts", "node_getBlock", [17], lambda value: "header" in value and "body" not in value),
    Row("with transactions", "node_getBlock", [17, {"includeTransactions": True}], record("header", "body")),
    Row("by archive", "node_getBlock", [{"archive": ARCHIVE}], record("header")),
    Row("by the name of a tip", "node_getBlock", ["finalized"], record("header")),
    Row("no block", "node_getBlock", [9999], ABSENT),
    Row("its data alone", "node_getBlockData", [17], lambda value: "header" in value and "body" not in value),
    Row("no data", "node_getBlockData", [UNKNOWN], ABSENT),
    Row("only blocks that are there", "node_getBlocks", [TIP - 1, 10], several(record("header"), 2)),
    Row("a checkpoint", "node_getCheckpoint", [3], record("header", "number")),
    Row("no checkpoint", "node_getCheckpoint", [9999], ABSENT),
    Row("checkpoints", "node_getCheckpoints", [1, 3], several(record("header", "number"), 3)),
    Row("checkpoints by range", "node_getCheckpointsData", [{"from": 1, "limit": 2}], several(record("header"), 2)),
    Row("checkpoints by epoch", "node_getCheckpointsData", [{"epoch": 0}], several(record("header"), 3)),
    Row("neither range nor epoch", "node_getCheckpointsData", [{}], -32602),
    Row("no witness of no transaction", "node_getL2ToL1MembershipWitness", [UNKNOWN, UNKNOWN], ABSENT),
    Row("fees of this slot and the next ones", "node_getPredictedMinFees", [], several(fees)),
    *(
        Row(f"fees at {usage} usage", "node_getPredictedMinFees", [usage], several(fees))
        for usage in ("none", "target", "limit")
    ),
]
ADMIN = [
    Row("configuration", "nodeAdmin_getConfig", [], record("minTxsPerBlock")),
    Row("it is merged", "nodeAdmin_setConfig", [{"minTxsPerBlock": 3}], ABSENT),
    Row("pause", "nodeAdmin_pauseSync", [], ABSENT),
    Row("resume", "nodeAdmin_resumeSync", [], ABSENT),
    Row("no place for a snapshot", "nodeAdmin_startSnapshotUpload", ["nonsense"], -32602),
    Row("keys are read again, where there are some", "nodeAdmin_reloadKeystore", [], -32000),
    Row("offenses of a round, by someone who looks", "nodeAdmin_getSlashOffenses", ["all"], -32000),
    Row("a round that is none", "nodeAdmin_getSlashOffenses", ["foo"], -32602),
    Row("back to a block", "nodeAdmin_rollbackTo", [102], ABSENT),
    Row("back behind what is final only with force", "nodeAdmin_rollbackTo", [11], -32000),
    Row("with force", "nodeAdmin_rollbackTo", [11, True], ABSENT),
]

PAYLOADS = Row("payloads, by someone who looks", "nodeAdmin_getSlashPayloads", [], -32000)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NodeProcess]]:
    folder = tmp_path_factory.mktemp("specification")
    started: dict[str, NodeProcess] = {}
    try:
        for name in ("release", "development"):
            arguments = ["--method-set", name, "--data-directory", str(folder / name)]
            arguments += ["--admin-api-key-hash", ADMIN_KEY_HASH]
            started[name] = NodeProcess(arguments, folder / f"{name}.log", {})
        for node in started.values():
            node.wait_until_serving()
            node.wait_for_line("chain file loaded")
        yield started
    finally:
        for node in started.values():
            node.process.kill()
            node.process.wait()


def check(row: Row, answer: dict[str, Any]) -> None:
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
    if isinstance(row.expected, int) and not isinstance(row.expected, bool) and row.expected < 0:
        assert answer["error"]["code"] == row.expected, answer
    elif row.expected == ABSENT:
        assert answer == {"jsonrpc": "2.0", "id": 1}
    else:
        assert "result" in answer, answer
        held = row.expected(answer["result"]) if callable(row.expected) else answer["result"] == row.expected
        assert held, json.dumps(answer["result"])[:500]


def named(row: Row) -> str:
    return f"{row.method}: {row.statement}"


@pytest.mark.parametrize("row", COMMON, ids=named)
def test_both_sets_answer(row: Row, nodes: dict[str, NodeProcess]) -> None:
    for node in nodes.values():
        check(row, node.call(row.method, *row.params))


@pytest.mark.parametrize("row", RELEASE, ids=named)
def test_the_set_of_the_release_answers(row: Row, nodes: dict[str, NodeProcess]) -> None:
    check(row, nodes["release"].call(row.method, *row.params))


@pytest.mark.parametrize("row", DEVELOPMENT, ids=named)
def test_the_set_of_the_development_answers(row: Row, nodes: dict[str, NodeProcess]) -> None:
    check(row, nodes["development"].call(row.method, *row.params))


def test_a_set_has_no_methods_of_the_other_alone(nodes: dict[str, NodeProcess]) -> None:
    release, development = ({row.method for row in rows} for rows in (RELEASE, DEVELOPMENT))
    for node, names in ((nodes["development"], release - development), (nodes["release"], development - release)):
        for name in names:
            assert node.call(name)["error"]["code"] == -32601, name


def test_the_admin_port_answers(nodes: dict[str, NodeProcess]) -> None:
    """In order: what comes last goes back behind what is final."""
    check(PAYLOADS, nodes["release"].call_admin(PAYLOADS.method))
    assert nodes["development"].call_admin(PAYLOADS.method)["error"]["code"] == -32601
    for row in ADMIN:
        check(row, nodes["development"].call_admin(row.method, *row.params))
    assert nodes["development"].call_admin("nodeAdmin_getConfig")["result"]["minTxsPerBlock"] == 3


def status_of(node: NodeProcess, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{node.admin_port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_admin_key_goes_in_either_header_and_the_status_wants_none(nodes: dict[str, NodeProcess]) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"nodeAdmin_getConfig","params":[]}'
    node = nodes["release"]
    assert status_of(node, "/status", {}) == 200
    for headers, wanted in (
        ({"x-api-key": ADMIN_KEY}, 200),
        ({"Authorization": f"Bearer {ADMIN_KEY}"}, 200),
        ({}, 401),
        ({"x-api-key": "wrong"}, 401),
    ):
        assert status_of(node, "/", {"Content-Type": "application/json", **headers}, call) == wanted


def test_a_generated_key_is_shown_once_kept_as_a_hash_and_used_again(tmp_path: Path) -> None:
    def started(name: str) -> NodeProcess:
        node = NodeProcess(["--data-directory", str(tmp_path / "data")], tmp_path / f"{name}.log", {})
        try:
            node.wait_until_serving()
        finally:
            node.process.kill()
            node.process.wait()
        return node

    first = started("first")
    key = first.admin_key
    kept = (tmp_path / "data" / "admin" / "api_key_hash").read_text().strip()
    assert kept == hashlib.sha256(key.encode()).hexdigest()
    assert key not in first.log.read_text()
    assert "x-api-key: " not in started("second").output.read_text()
