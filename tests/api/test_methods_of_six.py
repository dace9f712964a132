"""The methods of release 6.x over a chain of it: each answer is as its schema says, whatever is asked, and each witness
leads to the root in a header, by a second computation with the readable hash.

The chain is made by the builder of blocks; no answer of a node of 6.x was recorded.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests._ext.avm_programs import FF, U32, assemble, put
from tests.api.test_methods_of_five import REFUSED, Questions, methods_of
from tests.api.test_openrpc import Described
from tests.protocol.test_effects_tree import independent_categories
from tests.public_execution.made import valid_tx_running
from tests.sentinel.test_sentinel import ADDRESSES, sentinel
from tests.sentinel.test_sentinel import view as sentinel_view
from tests.serving.fixtures import Client
from tests.sources.l1.derivation.test_release_5 import Made, derive, settings_of
from tests.sources.l1.derivation.test_release_6 import SHAPE, l1, publish_next
from tests.sources.l1.publishing import PublishingL1

from fastnode._twins import poseidon2 as twin
from fastnode.api import upstream
from fastnode.api.chain import methods as chain_methods
from fastnode.app.stages.origins import Origins
from fastnode.archiver.queries import ChainView
from fastnode.config.settings import Settings
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import SIX
from fastnode.testing import RunningNetwork, local_network
from fastnode.view import View

__all__ = ["l1", "sentinel_view"]

DATA = Path(__file__).parents[1] / "data"
#: Transactions of each block; each block is a checkpoint.
TXS = (1, 2, 3, 5, 8, 0, 7)
#: Calls of each new method.
CALLS = 30
SEED = 6
NEW = {
    "aztec_getBlockHashMembershipWitnessAtArchive": [2, 0],
    "aztec_getL1ToL2MessageIndex": [1, 0],
    "aztec_getTxEffectMembershipWitness": [1, 0],
    "aztec_getValidatorStatsBatch": [1, 2],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, l1: PublishingL1) -> Iterator[Made]:
    learned = Origins(Settings(**settings_of(l1)), lambda: None)
    try:
        chain, genesis = learned.learn_chain()
    finally:
        learned.interrupt()
        learned.close()
    with ExitStack() as stack:
        made = Made(tmp_path_factory.mktemp("six"), chain, genesis, stack, replace(SHAPE, l1_to_l2=2))
        for count in TXS:
            publish_next(l1, made, [made.effect() for _ in range(count)])
        yield made


@pytest.fixture(scope="module")
def six(made: Made) -> View:
    return View(made.ingestor.view, made.data.state.view)


@pytest.fixture
def client(made: Made, six: View, make_client: Callable[..., Client]) -> Client:
    return make_client(methods_of(made), method_set="6.x", view=six)


def effects_of(made: Made) -> list[tuple[int, TxEffect]]:
    """All transactions, with the numbers of their blocks."""
    view = made.ingestor.view
    blocks = [view.load_block(number) for number in range(1, view.tip_number + 1)]
    return [(block.number, effect) for block in blocks if block is not None for effect in block.body.tx_effects]


# ---- the set ----------------------------------------------------------------------------------------


def test_the_set_has_the_methods_of_5_x_with_four_more_and_one_less() -> None:
    described = Described("6.x")
    counts = {
        method["name"]: [
            sum(parameter["required"] for parameter in method["params"]),
            sum(not parameter["required"] for parameter in method["params"]),
        ]
        for method in described.document["methods"]
        if not method["name"].startswith("fastnode_")
    }
    of_five = json.loads((DATA / "release-5" / "methods.json").read_text())
    del of_five["aztec_getL1ToL2MessageCheckpoint"]
    assert counts == of_five | NEW


def test_a_node_of_a_chain_of_6_x_serves_this_set(client: Client) -> None:
    assert SIX.method_set == "6.x"
    for name in ("aztec_getL1ToL2MessageCheckpoint", "node_isL1ToL2MessageSynced"):
        error = client.error(name, "0x01")
        assert error["code"] == -32601
        assert "release 6.x has no such method: use getL1ToL2MessageIndex" in error["message"]
    assert "release 6.x has no such method: use getChainTips" in client.error("aztec_getL2Tips")["message"]


@pytest.mark.parametrize("name", NEW)
def test_no_other_set_has_the_new_methods(made: Made, six: View, make_client: Callable[..., Client], name: str) -> None:
    for method_set in ("both", "5.x"):
        client = make_client(methods_of(made), method_set=method_set, view=six)
        assert client.error(name, "0x01")["code"] == -32601


def test_every_answer_is_as_its_schema_says_whatever_is_asked(made: Made, client: Client, data_directory: Path) -> None:
    described = Described("6.x")
    questions = Asking(made, data_directory, random.Random(SEED))
    answered = set()
    for method in described.document["methods"]:
        name = method["name"]
        if client.engine.table.get(name) is None or name.endswith(("setConfig", "SnapshotUpload", "rollbackTo")):
            continue
        for _ in range(CALLS if name in NEW else 3 if method["params"] else 1):
            parameters = questions.parameters(method)
            answer = client.call(name, *parameters)
            if "error" in answer:
                assert answer["error"]["code"] in REFUSED, (name, parameters, answer)
                continue
            answered.add(name)
            flaw = described.flaw_of_result(name, answer["result"])
            assert flaw is None, (parameters, flaw)
    assert answered >= NEW.keys()


class Asking(Questions):
    def _value(self, name: str) -> Any:
        choose = self._source.choice
        if name == "reference":
            return {"archive": choose([*self.archives, self.fields[0]])}
        if name == "blockHash":
            return choose([*self.hashes, self.fields[0]])
        if name == "validatorAddresses":
            return ["0x" + "12" * 20] * self._source.randrange(4)
        return super()._value(name)


# ---- effects ----------------------------------------------------------------------------------------


def path_of(text: str) -> list[bytes]:
    """Nodes of a sibling path."""
    packed = base64.b64decode(text)
    assert len(packed) == 4 + 32 * int.from_bytes(packed[:4], "big")
    return [packed[at : at + 32] for at in range(4, len(packed), 32)]


def climbed(leaf: bytes, index: int, path: list[bytes], separator: int) -> bytes:
    """The root that a leaf and its path lead to."""
    for sibling in path:
        pair = (sibling + leaf) if index & 1 else (leaf + sibling)
        leaf, index = twin.hash_fields(field_from_int(separator) + pair), index >> 1
    assert index == 0
    return leaf


def root_of_effect(witness: dict[str, Any], tx_hash: bytes) -> bytes:
    leaf = twin.hash_fields(field_from_int(1186802524) + tx_hash + bytes.fromhex(witness["categoriesHash"][2:]))
    return climbed(leaf, int(witness["leafIndex"]), path_of(witness["siblingPath"]), 2908237871)


def test_the_witness_of_every_transaction_leads_to_the_root_in_the_header(made: Made, client: Client) -> None:
    effects = effects_of(made)
    assert len(effects) == sum(TXS)
    for number, effect in effects:
        witness = client.result("aztec_getTxEffectMembershipWitness", hex_text(effect.tx_hash))
        root = client.result("aztec_getBlockData", number)["header"]["txEffectsTreeRoot"]
        assert witness["blockNumber"] == number
        assert witness["root"] == root
        assert witness["categoriesHash"] == hex_text(independent_categories(effect))
        assert hex_text(root_of_effect(witness, effect.tx_hash)) == root


def test_the_witness_of_one_transaction_does_not_prove_another(made: Made, client: Client) -> None:
    (_, first), (_, second) = [row for row in effects_of(made) if row[0] == 2]
    witness = client.result("aztec_getTxEffectMembershipWitness", hex_text(first.tx_hash))
    assert root_of_effect(witness, first.tx_hash) != root_of_effect(witness, second.tx_hash)
    other = witness | {"leafIndex": "1"}
    assert root_of_effect(other, first.tx_hash) != root_of_effect(witness, first.tx_hash)


def test_paths_are_as_long_as_the_place_in_an_unbalanced_tree(made: Made, client: Client) -> None:
    def places(number: int) -> list[tuple[int, int]]:
        found = []
        for _, effect in (row for row in effects_of(made) if row[0] == number):
            witness = client.result("aztec_getTxEffectMembershipWitness", hex_text(effect.tx_hash))
            found.append((len(path_of(witness["siblingPath"])), int(witness["leafIndex"])))
        return found

    assert places(1) == [(0, 0)]
    assert places(3) == [(2, 0), (2, 1), (1, 1)]
    assert places(4) == [(3, 0), (3, 1), (3, 2), (3, 3), (1, 1)]
    assert places(7) == [(3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (2, 3)]


def test_an_unknown_transaction_has_no_witness_and_a_wrong_hash_is_refused(client: Client) -> None:
    assert client.result("aztec_getTxEffectMembershipWitness", "0x" + "12" * 32) is None
    for wrong in ("0x", 7, None, {"hash": "0x01"}):
        error = client.error("aztec_getTxEffectMembershipWitness", wrong)
        assert error["code"] == -32602
        assert "txHash (parameter 1)" in error["message"]


def test_a_chain_without_the_root_says_so(view: View, make_client: Callable[..., Client]) -> None:
    """``view``: of the sample chain, which is of 4.x."""
    client = make_client(chain_methods(), method_set="6.x", view=view)
    tx_hash = client.result("aztec_getBlock", 1, {"includeTransactions": True})["body"]["txEffects"][0]["txHash"]
    error = client.error("aztec_getTxEffectMembershipWitness", tx_hash)
    assert "release 4.x have no root over the effects" in error["message"]


# ---- messages ---------------------------------------------------------------------------------------


def test_the_index_of_a_message_is_the_number_of_those_before_it(made: Made, client: Client) -> None:
    messages = [message for _, given in made.published for message in given]
    assert len(messages) == 2 * len(TXS)
    found = [client.result("aztec_getL1ToL2MessageIndex", hex_text(message)) for message in messages]
    assert found == [str(index) for index in range(len(messages))]
    assert client.result("aztec_getL1ToL2MessageIndex", "0x05") is None


def test_a_message_that_no_block_has_inserted_has_its_index_from_l1(
    made: Made, six: View, make_client: Callable[..., Client]
) -> None:
    pending = {field_from_int(77): 14}
    client = make_client(chain_methods(message_index=pending.get), method_set="6.x", view=six)
    assert client.result("aztec_getL1ToL2MessageIndex", hex_text(field_from_int(77))) == "14"
    assert client.result("aztec_getL1ToL2MessageIndex", hex_text(field_from_int(78))) is None
    # One that comes while the chain stands is found too.
    pending[field_from_int(78)] = 15
    assert client.result("aztec_getL1ToL2MessageIndex", hex_text(field_from_int(78))) == "15"
    assert client.result("aztec_getL1ToL2MessageIndex", hex_text(made.published[0][1][0])) == "0"


def test_a_node_that_reads_l1_knows_the_index_of_a_message_before_a_block_has_it(
    tmp_path: Path, l1: PublishingL1, made: Made
) -> None:
    with ExitStack() as stack:
        node = derive(tmp_path / "node", l1, made, stack)
        known = node.ingestor.view.l1_to_l2_message_index
        message = field_from_int(4711)
        assert known(message) is None
        reader = node.origins.l1
        assert reader is not None
        l1.send(message)
        try:
            node.wait(lambda: reader.message_index(message) == 2 * len(TXS))
            assert known(message) is None
        finally:
            l1.reorg(1)


# ---- the archive ------------------------------------------------------------------------------------


def test_every_block_is_proven_in_every_archive_that_has_it(made: Made, client: Client) -> None:
    view = made.ingestor.view
    data = [client.result("aztec_getBlockData", number) for number in range(view.tip_number + 1)]
    for reference, at in enumerate(data):
        archive = at["archive"]["root"]
        for number, block in enumerate(data):
            asked = {"archive": archive}, block["blockHash"]
            witness = client.result("aztec_getBlockHashMembershipWitnessAtArchive", *asked)
            if number > reference:
                assert witness is None
                continue
            packed = base64.b64decode(witness)
            index, path = int.from_bytes(packed[:32], "big"), [packed[i : i + 32] for i in range(32, len(packed), 32)]
            assert (index, len(path)) == (number, 30)
            leaf = bytes.fromhex(block["blockHash"][2:])
            assert hex_text(climbed(leaf, index, path, 2982624097)) == archive


def test_an_archive_that_is_not_of_this_chain_and_other_references_are_refused(client: Client) -> None:
    name, block_hash = "aztec_getBlockHashMembershipWitnessAtArchive", "0x" + "11" * 32
    error = client.error(name, {"archive": "0x05"}, block_hash)
    assert error["code"] == -32000
    assert "Block with archive 0x0" in error["message"]
    for wrong, said in (
        ({"number": 1}, 'has no member "number", only archive'),
        ({}, ".archive (parameter 1) is required"),
        ({"archive": "zz"}, ".archive"),
        (1, "must be an object with archive"),
        ("latest", "must be an object with archive"),
        ({"archive": "0x05", "number": 1}, 'has no member "number"'),
    ):
        error = client.error(name, wrong, block_hash)
        assert (error["code"], said in error["message"]) == (-32602, True), error


# ---- validators -------------------------------------------------------------------------------------


def test_statistics_of_several_validators_are_those_of_each_in_the_order_asked(
    make_client: Callable[..., Client], sentinel_view: ChainView
) -> None:
    watcher = sentinel(sentinel_view)
    client = make_client(upstream.methods(None, watcher), method_set="6.x", view=View(sentinel_view))
    addresses = [*ADDRESSES[:2], bytes(20), ADDRESSES[0]]
    texts = ["0x" + address.hex() for address in addresses]
    found = client.result("aztec_getValidatorStatsBatch", texts, 0)
    assert found == [client.result("aztec_getValidatorStats", text, 0) for text in texts]
    assert found[0] == found[3] != found[1]
    assert found[2] is None
    assert client.result("aztec_getValidatorStatsBatch", []) == []


def test_ranges_of_slots_that_cannot_be_are_refused(
    make_client: Callable[..., Client], sentinel_view: ChainView
) -> None:
    watcher = sentinel(sentinel_view)
    client = make_client(upstream.methods(None, watcher), method_set="6.x", view=View(sentinel_view))
    window = watcher.history_epochs * sentinel_view.chain.epoch_duration
    for parameters, said in (
        ([["0x" + "12" * 20] * 101], "at most 100"),
        ([["0x12"]], r"validatorAddresses[0]"),
        ([[], 5, 4], "fromSlot (parameter 2) is 5, above toSlot, which is 4"),
        ([[], 0, window + 1], f"at most {window} slots above fromSlot, got {window + 1}"),
    ):
        error = client.error("aztec_getValidatorStatsBatch", *parameters)
        assert (error["code"], said in error["message"]) == (-32602, True), error
    assert client.result("aztec_getValidatorStatsBatch", [], 0, window) == []


def test_a_node_that_does_not_watch_validators_has_no_statistics(client: Client) -> None:
    assert client.result("aztec_getValidatorStatsBatch", ["0x" + "12" * 20] * 2) == [None, None]


# ---- a local network --------------------------------------------------------------------------------

PAYER = field_from_int(0xFEED)
#: Writes 77 into its slot 5.
WRITES = put(10, FF, 77) + put(11, FF, 5) + assemble("SSTORE", 10, 11) + put(1, U32, 0) + assemble("RETURN", 1, 2)


@pytest.fixture(scope="module")
def network() -> Iterator[RunningNetwork]:
    flags = ("--release=6.0", f"--prefund={hex_text(PAYER)}", "--seed=six")
    with local_network(*flags, in_process=True) as running:
        yield running


def test_a_local_network_answers_with_the_methods_of_6_x(network: RunningNetwork) -> None:
    header = BlockHeader.from_json(network.call("aztec_getBlockData", "latest")["header"], "header")
    version = int(network.call("aztec_getVersion"))
    tx = valid_tx_running(WRITES, header, version, PAYER, release=SIX)
    network.call("aztec_sendTx", json.loads(tx.to_json_bytes()))
    network.mine()
    receipt = network.call("aztec_getTxReceipt", hex_text(tx.hash))
    assert receipt["executionResult"] == "success", receipt
    witness = network.call("aztec_getTxEffectMembershipWitness", hex_text(tx.hash))
    block = network.call("aztec_getBlock", receipt["blockNumber"], {"includeTransactions": True})
    assert witness["root"] == block["header"]["txEffectsTreeRoot"] == hex_text(root_of_effect(witness, tx.hash))
    (effect,) = [TxEffect.from_json(item, "effect") for item in block["body"]["txEffects"]]
    assert witness["categoriesHash"] == hex_text(independent_categories(effect))
    archive = {"archive": block["archive"]["root"]}
    assert network.call("aztec_getBlockHashMembershipWitnessAtArchive", archive, block["hash"]) is not None
    assert network.call("aztec_getL1ToL2MessageIndex", "0x05") is None
    assert network.call("aztec_getValidatorStatsBatch", ["0x" + "12" * 20]) == [None]
