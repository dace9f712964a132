"""The statements of the interface, put to a running node one by one: what each method takes, gives, and refuses.

Each row is a statement, a call, and what must hold of the answer; ``ABSENT`` is an answer without a result.  How the
answers of all recorded questions look is compared elsewhere (tests/comparison); this is the interface as described.
"""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import ADMIN_KEY, ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs

from fastnode.errors import RpcError
from fastnode.testing import RunningNetwork, local_network

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
VALIDATOR = "0x" + "12" * 20
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


def of_block(number: int) -> Callable[[Any], bool]:
    return lambda value: value["header"]["globalVariables"]["blockNumber"] == number


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


def pages(*counts: int) -> Callable[[Any], bool]:
    return lambda value: tuple(map(len, value)) == counts


def parts(*members: str) -> Callable[[Any], bool]:
    """A block with these of its parts that may be left out."""
    optional = {"body", "l1", "attestations"}
    return lambda value: "header" in value and value.keys() & optional == set(members)


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
        lambda value: (
            bigint(value[0]["data"]) and record("l2BlockNumber", "l2BlockHash")(value[0]) and value[1] is None
        ),
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
    Row("the page behind goes on", "node_getPrivateLogsByTags", [[PRIVATE_TAG], 1], pages(10)),
    Row("a page behind all", "node_getPrivateLogsByTags", [[PRIVATE_TAG], 1000], [[]]),
    Row("no logs of a tag", "node_getPrivateLogsByTags", [[UNKNOWN]], [[]]),
    Row("one array for each tag, in order", "node_getPrivateLogsByTags", [[UNKNOWN, PRIVATE_TAG]], pages(0, 10)),
    Row("a reference block that is there", "node_getPrivateLogsByTags", [[UNKNOWN], 0, BLOCK_HASH], [[]]),
    Row("a reference block that is not", "node_getPrivateLogsByTags", [[UNKNOWN], 0, UNKNOWN], -32000),
    Row("ten logs of a public tag", "node_getPublicLogsByTagsFromContract", [PUBLIC_CONTRACT, [PUBLIC_TAG]], pages(10)),
    Row("page 0 is the first", "node_getPublicLogsByTagsFromContract", [PUBLIC_CONTRACT, [PUBLIC_TAG], 0], pages(10)),
    Row("a page behind all", "node_getPublicLogsByTagsFromContract", [PUBLIC_CONTRACT, [PUBLIC_TAG], 1000], [[]]),
    Row(
        "one array for each tag, public",
        "node_getPublicLogsByTagsFromContract",
        [PUBLIC_CONTRACT, [UNKNOWN, PUBLIC_TAG]],
        pages(0, 10),
    ),
    Row(
        "a reference block that is there, public",
        "node_getPublicLogsByTagsFromContract",
        [PUBLIC_CONTRACT, [UNKNOWN], 0, BLOCK_HASH],
        [[]],
    ),
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
    Row("no statistics unless they are kept", "node_getValidatorsStats", [], {"stats": {}, "slotWindow": 0}),
    Row("nor of one validator", "node_getValidatorStats", [VALIDATOR], ABSENT),
    Row("nor in some slots", "node_getValidatorStats", [VALIDATOR, 1, 20], ABSENT),
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
    Row("no header", "node_getBlockHeader", [9999], ABSENT),
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
    Row("a block without its parts", "node_getBlock", [17], parts()),
    Row("with transactions", "node_getBlock", [17, {"includeTransactions": True}], parts("body")),
    Row("with what L1 says", "node_getBlock", [17, {"includeL1PublishInfo": True}], parts("l1")),
    Row("with attestations", "node_getBlock", [17, {"includeAttestations": True}], parts("attestations")),
    *(
        Row(f"by {way}", method, [param], of_block(number))
        for method in ("node_getBlock", "node_getBlockData")
        for way, param, number in (
            ("its number", 17, 17),
            ("its hash", BLOCK_HASH, 17),
            ("the archive root behind it", ARCHIVE, 92),
            ("latest", "latest", TIP),
            ("the name of a tip", "proven", PROVEN),
            ("an object with the number", {"number": 17}, 17),
            ("an object with the hash", {"hash": BLOCK_HASH}, 17),
            ("an object with the archive root", {"archive": ARCHIVE}, 92),
            ("an object with the tip", {"tag": "proven"}, PROVEN),
        )
    ),
    Row("no block", "node_getBlock", [9999], ABSENT),
    Row("its data alone", "node_getBlockData", [17], parts()),
    Row("no data", "node_getBlockData", [UNKNOWN], ABSENT),
    Row("only blocks that are there", "node_getBlocks", [TIP - 1, 10], several(record("header"), 2)),
    Row("blocks with their parts", "node_getBlocks", [17, 2, {"includeTransactions": True}], several(parts("body"), 2)),
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
    Row("it is merged", "nodeAdmin_setConfig", [{"maxPendingTxCount": 3}], ABSENT),
    Row("a key that no part of this node reads", "nodeAdmin_setConfig", [{"minTxsPerBlock": 3}], -32602),
    Row("no place for a snapshot", "nodeAdmin_startSnapshotUpload", ["nonsense"], -32602),
    Row("keys are read again, where there are some", "nodeAdmin_reloadKeystore", [], -32000),
    Row("offenses of a round, by someone who looks", "nodeAdmin_getSlashOffenses", ["all"], -32000),
    Row("of the current round", "nodeAdmin_getSlashOffenses", ["current"], -32000),
    Row("of a round by its number", "nodeAdmin_getSlashOffenses", ["3"], -32000),
    Row("a round that is none", "nodeAdmin_getSlashOffenses", ["foo"], -32602),
]
#: In order, with whether the sync rests afterwards.
SYNC = [
    (Row("pause", "nodeAdmin_pauseSync", [], ABSENT), True),
    (Row("resume", "nodeAdmin_resumeSync", [], ABSENT), False),
    (Row("back to a block, and on", "nodeAdmin_rollbackTo", [102], ABSENT), False),
    (Row("back, and not on", "nodeAdmin_rollbackTo", [99, False, False], ABSENT), True),
    (Row("behind what is final only with force", "nodeAdmin_rollbackTo", [11], -32000), True),
    (Row("on by default", "nodeAdmin_rollbackTo", [92], ABSENT), False),
    (Row("with force", "nodeAdmin_rollbackTo", [11, True], ABSENT), False),
]

PAYLOADS = Row("payloads, by someone who looks", "nodeAdmin_getSlashPayloads", [], -32000)

#: Parameters and results of all methods; ``?`` marks parameters that may be left out, and results that may be absent.
COMMON_METHODS = """
node_findLeavesIndexes(referenceBlock, treeId, leafValues) (DataInBlock|null)[]
node_getAllowedPublicSetup() AllowedElement[]
node_getBlockHashMembershipWitness(referenceBlock, blockHash) MembershipWitness?
node_getChainId() number
node_getContract(address) ContractInstanceWithAddress?
node_getContractClass(id) ContractClassPublic?
node_getContractClassLogs(filter) GetContractClassLogsResponse
node_getCurrentMinFees() GasFees
node_getEncodedEnr() string?
node_getL1ContractAddresses() L1ContractAddresses
node_getL1ToL2MessageCheckpoint(l1ToL2Message) number?
node_getL1ToL2MessageMembershipWitness(referenceBlock, l1ToL2Message) [bigint,SiblingPath]?
node_getL2ToL1Messages(epoch) Fr[][][][]
node_getLowNullifierMembershipWitness(referenceBlock, nullifier) NullifierMembershipWitness?
node_getMaxPriorityFees() GasFees
node_getNodeInfo() NodeInfo
node_getNodeVersion() string
node_getNoteHashMembershipWitness(referenceBlock, noteHash) MembershipWitness?
node_getNullifierMembershipWitness(referenceBlock, nullifier) NullifierMembershipWitness?
node_getPendingTxCount() number
node_getPendingTxs(limit?, after?) Tx[]
node_getPrivateLogsByTags(tags, page?, referenceBlock?) TxScopedL2Log[][]
node_getProtocolContractAddresses() ProtocolContractAddresses
node_getPublicDataWitness(referenceBlock, leafSlot) PublicDataWitness?
node_getPublicLogs(filter) GetPublicLogsResponse
node_getPublicLogsByTagsFromContract(contractAddress, tags, page?, referenceBlock?) TxScopedL2Log[][]
node_getPublicStorageAt(referenceBlock, contract, slot) Fr
node_getTxByHash(txHash) Tx?
node_getTxEffect(txHash) IndexedTxEffect?
node_getTxReceipt(txHash) TxReceipt
node_getTxsByHash(txHashes) Tx[]
node_getValidatorStats(validatorAddress, fromSlot?, toSlot?) SingleValidatorStats?
node_getValidatorsStats() ValidatorsStats
node_getVersion() number
node_getWorldStateSyncStatus() WorldStateSyncStatus
node_isReady() boolean
node_isValidTx(tx, options?) TxValidationResult
node_registerContractFunctionSignatures(functionSignatures) void?
node_sendTx(tx) void?
node_simulatePublicCalls(tx, skipFeeEnforcement?) PublicSimulationOutput
nodeAdmin_getConfig() AztecNodeAdminConfig
nodeAdmin_getSlashOffenses(round) Offense[]
nodeAdmin_pauseSync() void?
nodeAdmin_reloadKeystore() void?
nodeAdmin_resumeSync() void?
nodeAdmin_setConfig(config) void?
nodeAdmin_startSnapshotUpload(location) void?
"""
METHODS = {
    "release": """
node_getBlock(blockParameter) L2Block?
node_getBlockByArchive(archive) L2Block?
node_getBlockByHash(blockHash) L2Block?
node_getBlockHeader(block?) BlockHeader?
node_getBlockHeaderByArchive(archive) BlockHeader?
node_getBlockNumber() number
node_getBlocks(from, limit) L2Block[]
node_getCheckpointNumber() number
node_getCheckpointedBlockNumber() number
node_getCheckpointedBlocks(from, limit) CheckpointedL2Block[]
node_getCheckpoints(checkpointNumber, limit) PublishedCheckpoint[]
node_getCheckpointsDataForEpoch(epochNumber) CheckpointData[]
node_getL2Tips() L2Tips
node_getProvenBlockNumber() number
node_isL1ToL2MessageSynced(l1ToL2Message) boolean
nodeAdmin_getSlashPayloads() SlashPayloadRound[]
nodeAdmin_rollbackTo(targetBlockNumber) void?
""",
    "development": """
node_getBlock(blockParameter, options?) BlockResponse?
node_getBlockData(blockParameter) BlockData?
node_getBlockNumber(tip?) number
node_getBlocks(from, limit, options?) BlockResponse[]
node_getChainTips() ChainTips
node_getCheckpoint(checkpointParameter, options?) CheckpointResponse?
node_getCheckpointNumber(tip?) number
node_getCheckpoints(from, limit, options?) CheckpointResponse[]
node_getCheckpointsData(query) CheckpointData[]
node_getL2ToL1MembershipWitness(txHash, message, messageIndexInTx?) L2ToL1MembershipWitness?
node_getPredictedMinFees(manaUsage?) GasFees[]?
nodeAdmin_rollbackTo(targetBlockNumber, force?, resumeSync?) void?
""",
}
#: Those that give way to another one of the same set.
DEPRECATED = {"release": ["node_isL1ToL2MessageSynced"], "development": ["node_getL2ToL1Messages"]}


@pytest.fixture(scope="module")
def nodes(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NodeProcess]]:
    folder = tmp_path_factory.mktemp("specification")
    started: dict[str, NodeProcess] = {}
    try:
        for name in ("release", "development"):
            shutil.copytree(chain_directory, folder / name)
            arguments = ["--method-set", name, "--data-directory", str(folder / name)]
            arguments += ["--admin-api-key-hash", ADMIN_KEY_HASH]
            started[name] = NodeProcess(arguments, folder / f"{name}.log", {})
        for node in started.values():
            node.wait_until_serving()
        yield started
    finally:
        for node in started.values():
            node.process.kill()
            node.process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def builder() -> Iterator[RunningNetwork]:
    with local_network("--seed=test", "--no-mining", in_process=True) as running:
        yield running


def check(row: Row, answer: dict[str, Any]) -> None:
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
    if isinstance(row.expected, int) and not isinstance(row.expected, bool) and row.expected < 0:
        assert answer["error"]["code"] == row.expected, answer
    elif row.expected == ABSENT:
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": None}
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


def type_name(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return f"({'|'.join(map(type_name, schema['anyOf']))})"
    if schema["type"] != "array":
        return str(schema["type"])
    items = schema["items"]
    return f"[{','.join(map(type_name, items))}]" if isinstance(items, list) else type_name(items) + "[]"


def described(method: dict[str, Any]) -> str:
    parameters = ", ".join(each["name"] + "?" * (not each["required"]) for each in method["params"])
    name = type_name(method["result"]["schema"])
    if name.endswith("|null)"):
        name = f"{name.removeprefix('(').removesuffix('|null)')}?"
    return f"{method['name']}({parameters}) {name}{'?' * (name == 'void')}"


@pytest.mark.parametrize("name", METHODS)
def test_a_set_has_these_methods_with_these_parameters_and_results(name: str, nodes: dict[str, NodeProcess]) -> None:
    answers = nodes[name].call("rpc.discover"), nodes[name].call_admin("rpc.discover")
    methods = [method for answer in answers for method in answer["result"]["methods"]]
    served = [method for method in methods if not method["name"].startswith("fastnode_")]
    assert sorted(map(described, served)) == sorted(filter(None, (COMMON_METHODS + METHODS[name]).split("\n")))
    assert [method["name"] for method in served if method.get("deprecated")] == DEPRECATED[name]


def test_the_admin_port_answers(nodes: dict[str, NodeProcess]) -> None:
    check(PAYLOADS, nodes["release"].call_admin(PAYLOADS.method))
    assert nodes["development"].call_admin(PAYLOADS.method)["error"]["code"] == -32601
    for row in ADMIN:
        check(row, nodes["development"].call_admin(row.method, *row.params))
    assert nodes["development"].call_admin("nodeAdmin_getConfig")["result"]["maxPendingTxCount"] == 3


def test_the_sync_rests_and_goes_on_as_the_admin_port_is_told(nodes: dict[str, NodeProcess]) -> None:
    node = nodes["development"]
    for row, rests in SYNC:
        check(row, node.call_admin(row.method, *row.params))
        with urllib.request.urlopen(f"http://127.0.0.1:{node.admin_port}/status", timeout=PATIENCE_S) as response:
            assert ("paused" in response.read().decode()) is rests, row.statement


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


# ---- what becomes of transactions --------------------------------------------------------------------------


@pytest.fixture
def pool(builder: RunningNetwork) -> Iterator[RunningNetwork]:
    """A network that builds no block unless it is told to; each test finds an empty pool."""
    with builder.rolled_back():
        yield builder
        for tx in builder.call("node_getPendingTxs"):
            builder.call("fastnode_dropTransaction", tx["txHash"])
        builder.call_admin("nodeAdmin_setConfig", {"maxPendingTxCount": None})


def offer(pool: RunningNetwork, *priority_fees: int, number: int = 0, **fees: int) -> list[dict[str, Any]]:
    """Transactions with the nullifiers of one number, at these priority fees."""
    anchor, version = pool.call("node_getBlockHeader", "latest"), pool.call("node_getVersion")
    recorded = list(made_txs(number + 1))[number]
    return [for_chain(recorded, anchor, version, priority=fee, **fees) for fee in priority_fees]


def refusal(pool: RunningNetwork, tx: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(RpcError) as caught:
        pool.call("node_sendTx", tx)
    data: dict[str, Any] = caught.value.data
    return data


def test_a_transaction_is_pending_then_mined_or_dropped(pool: RunningNetwork) -> None:
    (first,), (second,) = offer(pool, 7), offer(pool, 5, number=1)
    for tx in (first, second):
        assert pool.call("node_isValidTx", tx) == {"result": "valid"}
        assert pool.call("node_sendTx", tx) is None
        assert pool.call("node_getTxReceipt", hash_of(tx)) == {"txHash": hash_of(tx), "status": "pending"}
        assert pool.call("node_getTxByHash", hash_of(tx))["data"] == tx["data"]
    hashes = [hash_of(first), hash_of(second)]
    assert pool.call("node_getPendingTxCount") == 2
    assert [tx["txHash"] for tx in pool.call("node_getPendingTxs")] == hashes
    assert [tx["txHash"] for tx in pool.call("node_getPendingTxs", 1, hashes[0])] == hashes[1:]
    assert [tx["txHash"] for tx in pool.call("node_getTxsByHash", [UNKNOWN, hashes[1]])] == hashes[1:]
    assert pool.call("node_getMaxPriorityFees") == {"feePerDaGas": "0", "feePerL2Gas": "7"}
    pool.call("fastnode_dropTransaction", hashes[1])
    pool.mine()
    mined, dropped = (pool.call("node_getTxReceipt", each) for each in hashes)
    assert (mined["status"], mined["executionResult"], mined["blockNumber"]) == ("proven", "success", pool.block_number)
    assert dropped["status"] == "dropped"
    assert pool.call("node_getPendingTxCount") == 0
    assert pool.call("node_isValidTx", first) == {"result": "invalid", "reason": ["Existing nullifier"]}


def test_a_transaction_with_the_same_nullifiers_must_offer_the_percentage_more(pool: RunningNetwork) -> None:
    first, little, enough = offer(pool, 100, 109, 110)
    pool.call("node_sendTx", first)
    data = refusal(pool, little)
    assert (data["code"], data["minimumPriceBumpFee"]) == ("NULLIFIER_CONFLICT", "110")
    pool.call("node_sendTx", enough)
    assert [tx["txHash"] for tx in pool.call("node_getPendingTxs")] == [hash_of(enough)]
    assert pool.call("node_getTxReceipt", hash_of(first))["status"] == "dropped"


def test_a_full_pool_wants_the_percentage_more_than_its_lowest(pool: RunningNetwork) -> None:
    pool.call_admin("nodeAdmin_setConfig", {"maxPendingTxCount": 1})
    (first,), (little, enough) = offer(pool, 100), offer(pool, 109, 110, number=1)
    pool.call("node_sendTx", first)
    data = refusal(pool, little)
    assert (data["code"], data["minimumPriorityFee"]) == ("LOW_PRIORITY_FEE", "110")
    pool.call("node_sendTx", enough)
    assert [tx["txHash"] for tx in pool.call("node_getPendingTxs")] == [hash_of(enough)]


def test_a_payer_without_enough_is_refused_by_its_code(pool: RunningNetwork) -> None:
    (tx,) = offer(pool, 0, max_fee=10**30)
    assert refusal(pool, tx)["code"] == "INSUFFICIENT_FEE_PAYER_BALANCE"
    assert pool.call("node_isValidTx", tx)["result"] == "invalid"
