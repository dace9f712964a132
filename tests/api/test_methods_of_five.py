"""The methods of release 5.x over a chain of it: each answer is as its schema says, whatever is asked, and logs,
receipts and contracts are those of the blocks.

The chain is made by the builder of blocks; no answer of a node of 5.x was recorded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_openrpc import Described
from tests.log_index.test_contracts import update_log
from tests.serving.fixtures import Client
from tests.sources.l1.derivation.test_release_5 import (
    NEW_CLASS,
    Made,
    class_log,
    instance_log,
    instance_of_vectors,
    l1,
    settings_of,
)

from fastnode.api import rollup, sequencer
from fastnode.app.ground.method_tables import Services, admin_methods, public_methods
from fastnode.app.stages.origins import Origins
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.jsonrpc.methods import Gone
from fastnode.mempool.allow_list import default_allow_list
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import PrivateLog, PublicLog, TxEffect
from fastnode.protocol.fields import ZERO_FIELD, field_from_int, hex_text
from fastnode.protocol.releases import FIVE
from fastnode.view import View

__all__ = ["l1"]

DATA = Path(__file__).parents[1] / "data"
TAGS = [field_from_int(1000 + number) for number in range(4)]
UNKNOWN_TAG = field_from_int(999)
CONTRACTS = [field_from_int(50 + number) for number in range(2)]
LOGS_PER_TAG_MAX = 20
SEED = 5
#: Calls of each method.
CALLS = 30
REFUSED = -32602, -32000


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory, data_directory: Path, l1: Any) -> Iterator[Made]:
    """Seven checkpoints; the logs of all their transactions have few tags."""
    learned = Origins(Settings(**settings_of(l1)), lambda: None)
    try:
        chain, genesis = learned.learn_chain()
    finally:
        learned.interrupt()
        learned.close()
    source = random.Random(SEED)
    with ExitStack() as stack:
        made = Made(tmp_path_factory.mktemp("five"), chain, genesis, stack)
        instance = instance_of_vectors(data_directory)
        start, duration = int(chain.l1_constants["l1GenesisTime"]), int(chain.l1_constants["slotDuration"])
        # It takes effect two blocks later.
        update = update_log(instance.address, ZERO_FIELD, NEW_CLASS.id, start + 5 * duration)
        made.checkpoint([logged(made, source, contract_class_logs=(class_log(),))], [logged(made, source)])
        made.checkpoint([made.effect(private_logs=(instance_log(instance),)), logged(made, source, revert_code=1)])
        made.checkpoint([made.effect(public_logs=(update,))])
        for _ in range(4):
            made.checkpoint([logged(made, source) for _ in range(source.randint(1, 4))], [logged(made, source)])
        yield made


def logged(made: Made, source: random.Random, **members: Any) -> TxEffect:
    private = tuple(private_log(source.choice(TAGS), source.randint(1, 16)) for _ in range(source.randrange(6)))
    public = tuple(
        PublicLog(source.choice(CONTRACTS), (source.choice(TAGS), *(made.content.fields(source.randrange(3)))))
        for _ in range(source.randrange(6))
    )
    return made.effect(private_logs=private, public_logs=public, note_hashes=made.content.fields(2), **members)


def private_log(tag: bytes, length: int) -> PrivateLog:
    fields = (tag, *(field_from_int(7) for _ in range(length - 1)))
    return PrivateLog((*fields, *(ZERO_FIELD for _ in range(16 - length))), length)


@pytest.fixture(scope="module")
def view(five: Made) -> View:
    return View(five.ingestor.view, five.data.state.view)


@pytest.fixture
def client(five: Made, view: View, make_client: Callable[..., Client]) -> Client:
    return make_client(methods_of(five), method_set="5.x", view=view)


def methods_of(made: Made) -> list[Any]:
    settings = Settings()
    services = Services(known_tags=made.data.indexes.known_tags, allow_list=lambda: default_allow_list(FIVE))
    stand_ins = {"l1ChainId": 1, "blockDurationMs": 72_000}
    return [*public_methods(settings, services), *admin_methods(NodeConfiguration(settings, stand_ins=stand_ins))]


# ---- the set ----------------------------------------------------------------------------------------


def test_the_set_has_the_methods_of_the_release_with_as_many_parameters() -> None:
    described = Described("5.x")
    counts = {
        method["name"]: [
            sum(parameter["required"] for parameter in method["params"]),
            sum(not parameter["required"] for parameter in method["params"]),
        ]
        for method in described.document["methods"]
        if not method["name"].startswith("fastnode_")
    }
    assert counts == json.loads((DATA / "release-5" / "methods.json").read_text())


def test_a_method_that_is_gone_names_its_successor(five: Made, client: Client) -> None:
    gone = {method.name for method in methods_of(five) if isinstance(method.five, Gone) and method.release is not None}
    gone -= {method.name for method in methods_of(five) if method.signature("5.x") is not None}
    assert len(gone) == 15
    for name in gone:
        for asked in (name, name.replace("node", "aztec", 1)):
            error = client.error(asked)
            assert error["code"] == -32601
            assert "release 5.x has no such method" in error["message"], error
    assert "use getChainTips" in client.error("aztec_getL2Tips")["message"]


def test_both_prefixes_reach_the_same_methods(client: Client) -> None:
    assert client.result("aztec_getBlock", 3) == client.result("node_getBlock", 3)
    assert client.result("aztec_getBlock", 3)["number"] == 3


# ---- whatever is asked ------------------------------------------------------------------------------


class Questions:
    """Parameters of any method: good ones name what the chain has, bad ones are spoiled."""

    def __init__(self, made: Made, data_directory: Path, source: random.Random) -> None:
        self._source = source
        view = made.ingestor.view
        self.numbers = list(range(view.tip_number + 1))
        blocks = [view.load_block(number) for number in self.numbers[1:]]
        effects = [effect for block in blocks if block for effect in block.body.tx_effects]
        self.hashes = [hex_text(block.hash()) for block in blocks if block]
        self.archives = [hex_text(block.archive.root) for block in blocks if block]
        self.tx_hashes = [hex_text(effect.tx_hash) for effect in effects]
        fields = [field for effect in effects for field in (*effect.note_hashes, *effect.nullifiers)]
        fields += [write.leaf_slot for effect in effects for write in effect.public_data_writes]
        fields += [message for _, messages in made.published for message in messages]
        self.fields = [hex_text(field) for field in (*fields, *TAGS, NEW_CLASS.id, UNKNOWN_TAG)]
        instance = instance_of_vectors(data_directory)
        self.addresses = [hex_text(address) for address in (instance.address, FIVE.addresses.fee_juice, *CONTRACTS)]

    def parameters(self, method: dict[str, Any]) -> list[Any]:
        values = [self._value(parameter["name"]) for parameter in method["params"]]
        required = sum(parameter["required"] for parameter in method["params"])
        values = values[: self._source.randint(required, len(values))]
        if values and self._source.random() < 0.3:
            values[self._source.randrange(len(values))] = self._spoiled()
        return values

    def _value(self, name: str) -> Any:
        choose = self._source.choice
        if name in ("blockParameter", "referenceBlock"):
            return choose([*self._blocks(), self._block_object()])
        if name == "tip":
            return choose(["proposed", "checkpointed", "proven", "finalized", None])
        if name in ("from", "limit", "epoch", "slot", "fromSlot", "toSlot", "messageIndexInTx", "targetBlockNumber"):
            return choose([0, 1, 2, 3, "2", 50])
        if name in ("txHash", "after"):
            return choose([*self.tx_hashes, self.fields[0]])
        if name == "txHashes":
            return self._source.sample(self.tx_hashes, 2)
        if name in ("contract", "address"):
            return choose(self.addresses)
        if name == "validatorAddress":
            return "0x" + "12" * 20
        if name == "leafValues":
            return self._source.sample(self.fields, 3)
        if name == "treeId":
            return choose([0, 1, 2, 3, 4])
        if name == "checkpointParameter":
            return choose([1, 4, 99, "proven", "checkpointed", {"slot": 3}, {"number": 2}])
        if name == "query":
            return self._query()
        if name == "options":
            flags = ("includeTransactions", "includeL1PublishInfo", "includeAttestations", "includeBlocks")
            flags += ("onlyCheckpointed", "includeTxEffect", "includePendingTx", "includeProof")
            return {flag: self._source.random() < 0.6 for flag in flags}
        return choose([*self.fields, *self.hashes, *self.archives])

    def _blocks(self) -> list[Any]:
        tips = ["latest", "proposed", "checkpointed", "proven", "finalized"]
        return [*self.numbers, *self.hashes, *tips, self.numbers[-1] + 1, "0x" + "1" * 64]

    def _block_object(self) -> dict[str, Any]:
        choose = self._source.choice
        by_field = [{"hash": choose(self.hashes)}, {"archive": choose(self.archives)}]
        return choose([*by_field, {"number": choose(self.numbers)}, {"tag": "proven"}])

    def _query(self) -> dict[str, Any]:
        if self._source.random() < 0.5:
            query = logs_query(self._source, self.hashes, self.tx_hashes)
            return of_kind(query, is_public=self._source.random() < 0.5)
        number = self._source.randrange(9)
        one = [{"from": number, "limit": 3}, {"epoch": 0}, {"fromSlot": number, "limit": 2, "reverse": number % 2 == 0}]
        return self._source.choice(one)

    def _spoiled(self) -> Any:
        bad = [None, -1, 1.5, "x", "0x", [], {}, True, 2**70, "0x" + "f" * 64, {"tag": 1}, {"tags": [1]}]
        return self._source.choice([*bad, {"tags": [hex_text(TAGS[0])], "limitPerTag": 21}])


def test_every_answer_is_as_its_schema_says_whatever_is_asked(five: Made, client: Client, data_directory: Path) -> None:
    described = Described("5.x")
    questions = Questions(five, data_directory, random.Random(SEED))
    answered: set[str] = set()
    names = set()
    for method in described.document["methods"]:
        name = method["name"]
        if client.engine.table.get(name) is None or name.endswith(("setConfig", "SnapshotUpload", "rollbackTo")):
            continue
        names.add(name)
        for _ in range(CALLS if method["params"] else 1):
            parameters = questions.parameters(method)
            answer = client.call(name, *parameters)
            if "error" in answer:
                assert answer["error"]["code"] in REFUSED, (name, parameters, answer)
                continue
            answered.add(name)
            flaw = described.flaw_of_result(name, answer["result"])
            assert flaw is None, (parameters, flaw)
    silent = names - answered
    # Methods that need a pool, a peer-to-peer network or a transaction.
    assert {name for name in silent if name.startswith("aztec_")} == {
        *("aztec_getCheckpointAttestationsForSlot", "aztec_getProposalsForSlot", "aztec_getMaxPriorityFees"),
        *("aztec_getPendingTxCount", "aztec_getPendingTxs", "aztec_getTxByHash", "aztec_getTxsByHash"),
        *("aztec_isValidTx", "aztec_sendTx", "aztec_simulatePublicCalls"),
    }


# ---- logs -------------------------------------------------------------------------------------------


def logs_query(source: random.Random, hashes: Sequence[str], tx_hashes: Sequence[str]) -> dict[str, Any]:
    """A query that is as the schema says."""
    tags: list[Any] = [hex_text(source.choice([*TAGS, UNKNOWN_TAG])) for _ in range(source.randint(1, 5))]
    for place, tag in enumerate(tags):
        if source.random() < 0.4:
            cursor = [source.randrange(14), source.randrange(5), source.randrange(7)]
            names = ("blockNumber", "txIndexWithinBlock", "logIndexWithinTx")
            tags[place] = {"tag": tag, "afterLog": dict(zip(names, cursor, strict=True))}
    query: dict[str, Any] = {"contractAddress": hex_text(source.choice(CONTRACTS)), "tags": tags}
    if source.random() < 0.3:
        query["txHash"] = source.choice(tx_hashes)
    else:
        for bound in ("fromBlock", "toBlock"):
            if source.random() < 0.4:
                query[bound] = source.randrange(14)
    if source.random() < 0.3:
        query["referenceBlock"] = source.choice(hashes)
    if source.random() < 0.5:
        query["includeEffects"] = source.random() < 0.5
    if source.random() < 0.5:
        query["limitPerTag"] = source.randint(1, LOGS_PER_TAG_MAX)
    return query


def of_kind(query: dict[str, Any], *, is_public: bool) -> dict[str, Any]:
    """The same query of public logs, or of private ones, which are not of a contract."""
    return query if is_public else {key: value for key, value in query.items() if key != "contractAddress"}


def expected_logs(made: Made, query: dict[str, Any], *, is_public: bool) -> list[list[Any]]:
    """The answer by the blocks themselves."""
    chain = made.ingestor.view
    blocks = blocks_of(made)
    found = []
    for item in query["tags"]:
        tag, after = (item["tag"], item.get("afterLog")) if isinstance(item, dict) else (item, None)
        first = 0 if after is not None else query.get("fromBlock", 1)
        end = query.get("toBlock", 1 << 40)
        if "referenceBlock" in query:
            end = min(end, (chain.block_number_by_hash(bytes.fromhex(query["referenceBlock"][2:])) or 0) + 1)
        logs = []
        for block in blocks:
            for tx_index, effect in enumerate(block.body.tx_effects):
                for index, fields in logs_of(effect, tag, query["contractAddress"] if is_public else None):
                    place = (block.number, tx_index, index)
                    is_wanted = first <= block.number < end
                    if "txHash" in query:
                        is_wanted = is_wanted and hex_text(effect.tx_hash) == query["txHash"]
                    if not is_wanted or (after is not None and place <= tuple(after.values())):
                        continue
                    log: dict[str, Any] = {
                        "logData": [hex_text(field) for field in fields],
                        "blockNumber": block.number,
                        "blockHash": hex_text(block.hash()),
                        "blockTimestamp": str(block.header.global_variables.timestamp),
                        "txHash": hex_text(effect.tx_hash),
                        "txIndexWithinBlock": tx_index,
                        "logIndexWithinTx": index,
                    }
                    if query.get("includeEffects"):
                        log["noteHashes"] = [hex_text(field) for field in effect.note_hashes]
                        log["nullifiers"] = [hex_text(field) for field in effect.nullifiers]
                    logs.append(log)
        found.append(logs[: query.get("limitPerTag", LOGS_PER_TAG_MAX)])
    return found


@cache
def blocks_of(made: Made) -> list[L2Block]:
    chain = made.ingestor.view
    return [block for number in range(1, chain.tip_number + 1) if (block := chain.load_block(number)) is not None]


def logs_of(effect: TxEffect, tag: str, contract: str | None) -> list[tuple[int, tuple[bytes, ...]]]:
    if contract is None:
        logs = [(log.fields[0], log.fields[: log.emitted_length]) for log in effect.private_logs]
    else:
        logs = [
            (log.fields[0] if hex_text(log.contract_address) == contract else b"", log.fields)
            for log in effect.public_logs
        ]
    return [(index, fields) for index, (first, fields) in enumerate(logs) if first == bytes.fromhex(tag[2:])]


def test_logs_by_tag_are_those_of_the_blocks_for_any_query(five: Made, client: Client, data_directory: Path) -> None:
    source = random.Random(SEED)
    questions = Questions(five, data_directory, source)
    count = 0
    for _ in range(150):
        query = logs_query(source, questions.hashes, questions.tx_hashes)
        for name, is_public in (("aztec_getPrivateLogsByTags", False), ("aztec_getPublicLogsByTags", True)):
            found = client.result(name, of_kind(query, is_public=is_public))
            assert found == expected_logs(five, query, is_public=is_public), (name, query)
            count += sum(map(len, found))
    assert count > 500


def test_all_logs_of_a_tag_are_found_page_by_page(five: Made, client: Client) -> None:
    tag, contract = hex_text(TAGS[0]), hex_text(CONTRACTS[0])
    for name, is_public in (("aztec_getPrivateLogsByTags", False), ("aztec_getPublicLogsByTags", True)):
        asked: Any = tag
        pages: list[Any] = []
        query: dict[str, Any] = {"contractAddress": contract, "limitPerTag": 3}
        while page := client.result(name, of_kind(query | {"tags": [asked]}, is_public=is_public))[0]:
            pages += page
            last = page[-1]
            cursor = {key: last[key] for key in ("blockNumber", "txIndexWithinBlock", "logIndexWithinTx")}
            asked = {"tag": tag, "afterLog": cursor}
        query |= {"tags": [tag], "limitPerTag": 1 << 20}
        assert [pages] == expected_logs(five, query, is_public=is_public)


def test_a_reference_block_that_is_gone_is_an_error_that_speaks_of_a_reorg(client: Client) -> None:
    query = {"tags": [hex_text(TAGS[0])], "referenceBlock": "0x" + "1" * 64}
    assert "reorg" in client.error("aztec_getPrivateLogsByTags", query)["message"]


# ---- receipts and contracts -------------------------------------------------------------------------


def test_receipts_are_those_of_the_blocks(five: Made, client: Client) -> None:
    chain = five.ingestor.view
    reverted = 0
    for number in range(1, chain.tip_number + 1):
        block = chain.load_block(number)
        assert block is not None
        slot = block.header.global_variables.slot_number
        for index, effect in enumerate(block.body.tx_effects):
            tx_hash = hex_text(effect.tx_hash)
            expected = {
                "txHash": tx_hash,
                "status": "checkpointed",
                "executionResult": "reverted" if effect.revert_code else "success",
                "transactionFee": str(effect.transaction_fee),
                "blockHash": hex_text(block.hash()),
                "blockNumber": number,
                "slotNumber": slot,
                "txIndexInBlock": index,
                "epochNumber": slot // chain.chain.epoch_duration,
            }
            reverted += bool(effect.revert_code)
            assert client.result("aztec_getTxReceipt", tx_hash) == expected
            whole = client.result("aztec_getTxReceipt", tx_hash, {"includeTxEffect": True})
            assert whole == expected | {"txEffect": effect.to_json()}
            indexed = client.result("aztec_getTxEffect", tx_hash)
            assert (indexed["slotNumber"], indexed["txIndexInBlock"], indexed["data"]) == (
                slot,
                index,
                effect.to_json(),
            )
    assert reverted == 1
    unknown = "0x" + "12" * 32
    dropped = {"txHash": unknown, "status": "dropped", "error": "Tx dropped by P2P node"}
    assert client.result("aztec_getTxReceipt", unknown) == dropped


def test_a_contract_has_the_class_of_the_block_that_is_asked_for(
    five: Made, client: Client, data_directory: Path
) -> None:
    instance = instance_of_vectors(data_directory)
    address, tip = hex_text(instance.address), five.ingestor.view.tip_number
    original = hex_text(instance.original_contract_class_id)

    def class_at(*block: Any) -> str:
        current: str = client.result("aztec_getContract", address, *block)["currentContractClassId"]
        return current

    # Published in block 3, updated in block 4 as of the slot of block 7.
    assert [class_at(number) for number in (3, 4, 5, 6)] == [original] * 4
    assert [class_at(*block) for block in ((7,), (tip,), (), ("latest",))] == [hex_text(NEW_CLASS.id)] * 4
    assert class_at({"tag": "finalized"}) == original
    for missing in (tip + 1, "0x" + "1" * 64):
        assert "reorg" in client.error("aztec_getContract", address, missing)["message"]
    assert client.result("aztec_getContract", "0x" + "12" * 32, 1) is None


def test_a_nullifier_that_is_there_has_no_proof_of_its_absence(five: Made, client: Client) -> None:
    block = five.ingestor.view.load_block(2)
    assert block is not None
    nullifier = hex_text(block.body.tx_effects[0].nullifiers[0])
    assert "already exists" in client.error("aztec_getLowNullifierMembershipWitness", "latest", nullifier)["message"]
    assert client.result("aztec_getLowNullifierMembershipWitness", 1, nullifier) is not None


def test_checkpoints_are_found_from_a_slot_on_and_back(five: Made, client: Client) -> None:
    def slots(query: dict[str, Any]) -> list[int]:
        return [data["header"]["slotNumber"] for data in client.result("aztec_getCheckpointsData", query)]

    assert slots({"fromSlot": 3, "limit": 3}) == [3, 4, 5]
    assert slots({"fromSlot": 3, "limit": 9, "reverse": True}) == [3, 2, 1]
    assert slots({"fromSlot": 99, "limit": 2, "reverse": True}) == [7, 6]
    assert slots({"fromSlot": 8, "limit": 2}) == slots({"fromSlot": 0, "limit": 2, "reverse": True}) == []


def test_checkpoints_have_no_proposed_tip(client: Client) -> None:
    assert client.result("aztec_getCheckpointNumber", "checkpointed") == 7
    for method in ("aztec_getCheckpointNumber", "aztec_getCheckpoint"):
        assert "checkpointed, proven" in client.error(method, "proposed")["message"]


def test_the_slots_that_are_synced_follow_from_checkpoints_and_from_the_time_of_l1(
    five: Made, view: View, make_client: Callable[..., Client]
) -> None:
    chain = view.chain.chain
    start, duration = int(chain.l1_constants["l1GenesisTime"]), int(chain.l1_constants["slotDuration"])
    status: dict[str, Any] = {}
    client = make_client(rollup.methods(lambda: status), method_set="5.x", view=view)
    assert client.result("aztec_getSyncedL2SlotNumber") == 7
    assert client.result("aztec_getSyncedL2EpochNumber") is None
    status["l1"] = {"blockTime": start + 65 * duration, "pendingCheckpoint": 7}
    assert client.result("aztec_getSyncedL1Timestamp") == str(start + 65 * duration)
    assert client.result("aztec_getSyncedL2SlotNumber") == 64
    assert client.result("aztec_getSyncedL2EpochNumber") == 65 // chain.epoch_duration - 1
    # A checkpoint that is on L1 and not here: not all is read.
    status["l1"]["pendingCheckpoint"] = 8
    assert client.result("aztec_getSyncedL2SlotNumber") == 7


def test_the_info_of_a_node_has_what_wallets_of_5_x_need(client: Client) -> None:
    info = client.result("aztec_getNodeInfo")
    assert info["protocolContractAddresses"]["multiCallEntrypoint"] == hex_text(FIVE.addresses.multi_call_entrypoint)
    assert client.result("aztec_getProtocolContractAddresses") == info["protocolContractAddresses"]
    assert info["txsLimits"]["gas"]["l2Gas"] == 6_540_000
    assert 0 < info["txsLimits"]["gas"]["daGas"] <= 271_200


def test_the_production_of_blocks_is_held_where_there_is_one(make_client: Callable[..., Client]) -> None:
    class Production:
        is_held = False

        def hold(self) -> None:
            self.is_held = True

        def go_on(self) -> None:
            self.is_held = False

    production = Production()
    client = make_client(sequencer.methods(production), method_set="5.x")
    for name, is_held in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        assert client.call(f"aztecAdmin_{name}Sequencer") == {"jsonrpc": "2.0", "id": 1, "result": None}
        assert production.is_held == is_held
    without = make_client(sequencer.methods(None), method_set="5.x")
    for name in ("pause", "resume"):
        error = without.error(f"aztecAdmin_{name}Sequencer")
        assert error["data"]["code"] == "NO_SEQUENCER"
        assert error["message"] == f"Cannot {name} sequencer: no sequencer is running"
