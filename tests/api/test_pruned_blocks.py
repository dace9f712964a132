"""Pruned blocks, by every method: the same answer as a node that has everything gives, or that they are pruned."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.conftest import NodeProcess
from tests.serving.fixtures import Client, ServedSets
from tests.serving.push_client import PushClient, push_client
from tests.serving.sockets import post
from tests.serving.two_paths import HotCalls, TwoPaths

from fastnode.chain_data import ChainData
from fastnode.jsonrpc.methods import METHOD_SETS
from fastnode.log_index import layout
from fastnode.view import View

KEPT = 40
CALLS_PER_METHOD = 4_000 if os.environ.get("FASTNODE_LONG") else 5
RANDOM_CALLS = 20_000 if os.environ.get("FASTNODE_LONG") else 60
#: Types of parameters with nothing of a block in them.
OTHER_TYPES = {
    "Tx",
    "TxValidationOptions",
    "string[]",
    "EthAddress",
    "slot",
    "boolean",
    "ManaUsageEstimate",
    "SimulationOverrides",
    "CheckpointProposalHash",
}
#: More than a client is told of the chain.
MESSAGES_MAX = 400
Call = tuple[str, list[Any]]


@pytest.fixture(scope="module")
def pruned_directory(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pruned") / "data"
    shutil.copytree(chain_directory, directory)
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        while ingestor.prune_bodies(KEPT):
            pass
    return directory


@pytest.fixture(scope="module")
def pruned(
    pruned_directory: Path, tmp_path_factory: pytest.TempPathFactory, loop_runner: asyncio.Runner
) -> Iterator[ServedSets]:
    sets = ServedSets(pruned_directory, tmp_path_factory.mktemp("sets"), loop_runner, as_followed=True)
    yield sets
    sets.stop()


def view_of(client: Client) -> View:
    view = client.engine.view_source()
    assert view is not None
    return view


def text(value: bytes) -> str:
    return "0x" + value.hex()


class Values(NamedTuple):
    """Values of parameters by their types, of blocks that are pruned and others; ``oldest``: the first with a body."""

    oldest: int
    of: dict[str, list[Any]]

    @classmethod
    def read(cls, whole: View, oldest: int) -> Values:
        chain = whole.chain
        tip = chain.tip_number
        numbers = [0, 1, 2, oldest // 2, oldest - 2, oldest - 1, oldest, oldest + 1, tip, tip + 1]
        infos = [info for number in numbers if (info := chain.block_info(number)) is not None]
        hashes, roots = [text(info.hash) for info in infos], [text(info.archive_root) for info in infos]
        txs = [tx for number in range(1, tip + 1) for tx in chain.tx_hashes(number) or []]
        tx_hashes = [text(tx) for tx in [*txs[:6], *txs[len(txs) // 2 :: 7], *txs[-3:], bytes(32)]]
        bodies = [json.loads(chain.body_json(number) or b"{}")["txEffects"] for number in range(1, tip + 1)]
        effects = list(itertools.chain.from_iterable(bodies))
        logs = [log for effect in effects for log in effect["publicLogs"]]
        private = [log["fields"][0] for effect in effects for log in effect["privateLogs"]]
        tags = [log["fields"][0] for log in logs if log["fields"]]
        contracts = [log["contractAddress"] for log in logs]
        fields = [field for effect in effects[::5] for field in (*effect["noteHashes"], *effect["nullifiers"])]
        messages = [message for effect in effects for message in effect["l2ToL1Msgs"]]
        names = [{"number": 1}, {"number": oldest}, {"hash": hashes[1]}, {"archive": roots[1]}]
        ranges = [{"fromBlock": first, "toBlock": last} for first in numbers[:9] for last in numbers[1:]]
        after = {"blockNumber": 2, "blockHash": hashes[2], "txHash": tx_hashes[0], "txIndex": 0, "logIndex": 0}
        filters = [
            {}, *ranges, *({"fromBlock": number} for number in numbers), *({"toBlock": number} for number in numbers),
            *({"txHash": tx} for tx in tx_hashes),
            *({"contractAddress": each} for each in sorted(set(contracts[::20]))),
            *({"tag": tag, "fromBlock": oldest} for tag in tags[::20]),
            {"afterLog": after},
        ]  # fmt: skip
        narrow: list[dict[str, Any]] = [
            *({}, {"fromBlock": 1}, {"fromBlock": oldest - 1}, {"fromBlock": oldest}, {"toBlock": oldest}),
            *({"txHash": tx} for tx in (tx_hashes[0], tx_hashes[-2])),
            *({"includeEffects": True}, {"fromBlock": oldest, "includeEffects": True, "limitPerTag": 3}),
        ]
        asked = [[tag] for tag in private[::3]]
        with_bodies = {"includeBlocks": True, "includeTransactions": True}
        checkpoints = [1, 2, infos[3].checkpoint_number, infos[6].checkpoint_number, infos[6].checkpoint_number - 1]
        return cls(
            oldest,
            {
                "CheckpointTag": ["checkpointed", "proven", "finalized"],
                "ConfirmedCheckpoint": [*checkpoints, {"number": 1}, "finalized"],
                "AnyCheckpointsQuery": [{"from": 1, "limit": 20}, {"epoch": 1}],
                "GetTxReceiptOptions": [{}, {"includeTxEffect": True}],
                "GetTxByHashOptions": [{}, {"includeProof": True}],
                "PrivateLogsQuery": [{"tags": tags_of} | narrowed for tags_of in asked for narrowed in narrow],
                "PublicLogsQuery": [
                    {"contractAddress": log["contractAddress"], "tags": log["fields"][:1]} | narrowed
                    for log in logs[::9]
                    for narrowed in narrow
                ],
                "ChainTip": ["proposed", "checkpointed", "proven", "finalized"],
                "BlockParam": [*numbers, *map(str, numbers), *hashes, *roots, *names, "latest", "finalized", "proven"],
                "ArchiveBlockParam": [{"archive": root} for root in roots],
                "BlockHash": hashes,
                "Fr": [*roots, *fields[:20], *private[:10], *messages[:5]],
                "number": numbers,
                "block number": numbers,
                "checkpoint number": checkpoints,
                "page": [0, 1, 2, 5],
                "TxHash": tx_hashes,
                "TxHash[]": [tx_hashes[:3], tx_hashes],
                "Fr[]": [fields[:5], fields[-5:]],
                "MerkleTreeId": [0, 1, 2, 3, 4],
                "AztecAddress": [*contracts[:2], *contracts[-2:]],
                "SiloedTag[]": [[tag] for tag in private[::3]] + [private[:40], private[-5:], [text(bytes(32))]],
                "Tag[]": [[tag] for tag in sorted(set(tags[::7]))] + [tags[:40], tags[-2:]],
                "LogFilter": filters,
                "CheckpointParameter": [*checkpoints, {"number": 1}, {"slot": infos[1].slot_number}, "finalized"],
                "CheckpointsQuery": [{"from": 1, "limit": 20}, {"epoch": 1}],
                "BlockIncludeOptions": [{}, {"includeTransactions": True}, {"includeAttestations": True}],
                "BlocksIncludeOptions": [{}, {"includeTransactions": True}, {"onlyCheckpointed": True}],
                "CheckpointIncludeOptions": [{}, {"includeBlocks": True}, with_bodies],
                "TraceOptions": [{}],
            },
        )  # fmt: skip

    def calls(self, client: Client, method_set: str, rng: random.Random) -> Iterator[Call]:
        for method in client.engine.table:
            signature = method.signature
            types = [parameter.type.name for parameter in signature.parameters]
            if not types or set(types) & OTHER_TYPES or method.name.startswith("fastnode_register"):
                continue
            required = sum(not parameter.optional for parameter in signature.parameters)
            every = [self.of[name] for name in types]
            if len(every) == 1:
                yield from ((method.name, [value]) for value in every[0][:CALLS_PER_METHOD])
            for _ in range(CALLS_PER_METHOD):
                length = rng.randint(required, len(types))
                yield method.name, [rng.choice(values) for values in every[:length]]


@pytest.fixture(scope="module")
def values(served: ServedSets, pruned: ServedSets) -> Values:
    return Values.read(view_of(served.client("both")), view_of(pruned.client("both")).chain.oldest_body)


def is_pruned(answer: dict[str, Any], oldest: int) -> bool:
    """It says so, with the oldest block that is kept, and the block where one is known."""
    data = answer.get("error", {}).get("data") or {}
    if not isinstance(data, dict) or data.get("code") != "BLOCK_PRUNED":
        return False
    number = data.get("blockNumber")
    assert data["oldestBlock"] == oldest
    assert str(oldest) in answer["error"]["message"]
    assert number is None or 0 < number < oldest
    assert number is None or str(number) in answer["error"]["message"]
    return True


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_every_method_answers_as_a_node_with_everything_or_says_pruned(
    served: ServedSets, pruned: ServedSets, values: Values, method_set: str
) -> None:
    rng = random.Random(method_set)
    whole, other = served.client(method_set), pruned.client(method_set)
    counts = {True: 0, False: 0}
    for name, params in values.calls(other, method_set, rng):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params}).encode()
        expected, answer = whole.send(body).text, other.send(body).text
        said = answer != expected
        counts[said] += 1
        if said:
            assert is_pruned(json.loads(answer), values.oldest), (name, params, answer)
            # Nothing is called pruned that is absent or an error in a node with everything.
            assert json.loads(expected).get("result") is not None, (name, params, expected)
    assert min(counts.values()) > 20


#: Questions that need the body of block 1, which registers a class, or of its transaction; and others.
NEEDS_BODY = {
    "node_getBlock": lambda of: [[1], [of["hash"]]],
    "node_getBlockByHash": lambda of: [[of["hash"]]],
    "node_getBlockByArchive": lambda of: [[of["archive"]]],
    "node_getBlocks": lambda of: [[1, 1], [1, 50]],
    "node_getCheckpointedBlocks": lambda of: [[1, 1]],
    "node_getCheckpoints": lambda of: [[1, 1]],
    "node_getTxEffect": lambda of: [[of["tx"]]],
    "node_getPublicLogs": lambda of: [[{}], [{"fromBlock": 1}], [{"txHash": of["tx"]}], [{"toBlock": 3}]],
    "node_getContractClassLogs": lambda of: [[{}], [{"txHash": of["tx"]}]],
    "fastnode_getPublicEvents": lambda of: [[{}]],
    "fastnode_traceTransaction": lambda of: [[of["tx"]]],
    "fastnode_traceBlock": lambda of: [[1]],
}
NEEDS_NO_BODY = {
    "node_getBlockHeader": lambda of: [[1], [of["hash"]]],
    "node_getBlockData": lambda of: [[1]],
    "node_getTxReceipt": lambda of: [[of["tx"]]],
    "node_getCheckpointsData": lambda of: [[{"from": 1, "limit": 1}]],
    "node_getPublicLogs": lambda of: [[{"fromBlock": of["oldest"]}]],
}


def test_what_needs_a_body_is_pruned_and_what_does_not_is_answered(
    served: ServedSets, pruned: ServedSets, values: Values
) -> None:
    whole, other = served.client("both"), pruned.client("both")
    info = view_of(whole).chain.block_info(1)
    [tx, *_] = view_of(whole).chain.tx_hashes(1) or []
    assert info is not None
    of = {"hash": text(info.hash), "archive": text(info.archive_root), "tx": text(tx), "oldest": values.oldest}
    traces = pruned.client("both", is_admin=True)
    for name, make in NEEDS_BODY.items():
        for params in make(of):
            asked = traces if name.startswith("fastnode_trace") else other
            assert is_pruned(asked.call(name, *params), values.oldest), (name, params)
    for name, make in NEEDS_NO_BODY.items():
        for params in make(of):
            assert other.call(name, *params) == whole.call(name, *params)
            assert other.result(name, *params)


def test_no_page_of_a_tag_lacks_a_log_unsaid(served: ServedSets, pruned: ServedSets, values: Values) -> None:
    """A wallet that gets an answer has all of its notes."""
    whole, other = served.client("both"), pruned.client("both")
    said = kept = 0
    for key, value in view_of(whole).chain.scan(layout.PRIVATE_COUNT, layout.after_prefix(layout.PUBLIC_COUNT)):
        tag_key = layout.tag_key_of_count(key)
        tag, owner = text(tag_key[-32:]), [text(tag_key[:32])] if len(tag_key) > 32 else []
        name = "node_getPublicLogsByTagsFromContract" if owner else "node_getPrivateLogsByTags"
        for page in range(layout.TagCount.decode(value).logs // 10 + 2):
            logs = whole.result(name, *owner, [tag], page)
            answer = other.call(name, *owner, [tag], page)
            is_cut = any(log["blockNumber"] < values.oldest for log in logs[0])
            assert is_pruned(answer, values.oldest) if is_cut else answer["result"] == logs
            said, kept = said + is_cut, kept + bool(logs[0] and not is_cut)
    assert said > 10
    assert kept > 10


@pytest.mark.parametrize("method_set", METHOD_SETS)
def test_both_paths_say_the_same_of_pruned_blocks(
    served: ServedSets, pruned: ServedSets, values: Values, loop_runner: asyncio.Runner, method_set: str
) -> None:
    whole, other = served.client(method_set), pruned.client(method_set)
    rng = random.Random(method_set)
    hot = HotCalls(view_of(whole), other.engine.table)
    chosen = [*values.calls(other, method_set, rng)]
    bodies = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params}).encode()
        for name, params in rng.sample(chosen, min(RANDOM_CALLS, len(chosen)))
    ]
    bodies = [body for body in bodies if len(body) < 1_900]

    async def compare() -> None:
        paths = TwoPaths(view_of(other), lambda: other.engine.table)
        for body in bodies:
            await paths.compare([post(body)], is_slow=False)
        for first in range(0, len(bodies), 4):
            batch = b"[%b]" % b",".join(bodies[first : first + 4])
            if len(batch) < 1_900:
                await paths.compare([post(batch)], is_slow=False)
        for _ in range(RANDOM_CALLS):
            await paths.compare([hot.request(rng)], is_slow=False)

    loop_runner.run(compare())


def told_of(client: PushClient, event: str) -> list[Any]:
    return [told["data"] for told in client.told if told["event"] == event]


def test_a_subscription_to_logs_cannot_go_on_in_pruned_blocks(pruned: ServedSets, values: Values) -> None:
    [tag] = values.of["SiloedTag[]"][0]

    def ask() -> None:
        with push_client(pruned.ports("both")[0]) as client:
            for wanted in ({"topic": "publicLogs"}, {"topic": "privateLogs", "tags": [tag]}):
                for first in (0, 1, values.oldest - 1):
                    assert is_pruned(client.call("subscribe", wanted | {"from": first}), values.oldest)
                assert "result" in client.call("subscribe", wanted | {"from": values.oldest})
            assert "result" in client.call("subscribe", {"topic": "blocks", "from": 1})
            for _ in range(MESSAGES_MAX):
                logs, blocks = (told_of(client, event) for event in ("logs", "block"))
                if logs and len(blocks) > 2:
                    break
                client.read()
            assert logs[0][0]["id"]["blockNumber"] >= values.oldest
            assert blocks[1]["number"] == 2
            assert blocks[1]["txHashes"]

    pruned.run(asyncio.to_thread(ask))


def test_workers_say_the_same_of_pruned_blocks(
    start_node: Callable[..., NodeProcess], pruned: ServedSets, values: Values, pruned_directory: Path, tmp_path: Path
) -> None:
    shutil.copytree(pruned_directory, tmp_path / "data")
    node = start_node("--workers=1", f"--data-directory={tmp_path / 'data'}", f"--keep-blocks={KEPT}")
    node.wait_until_serving()
    node.wait_for_line("worker serves")
    here = pruned.client("both")
    rng = random.Random(1)
    left = {"node_getTxReceipt", "node_getTxByHash"}  # this node takes no transactions, so it knows none
    calls = [call for call in values.calls(here, "both", rng) if call[0] not in left]
    calls = rng.sample(calls, 100)
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": name, "params": params}
        for number, (name, params) in enumerate(calls)
    ]
    said = 0
    for first in range(0, len(batch), 50):
        request = urllib.request.Request(
            node.url, json.dumps(batch[first : first + 50]).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answers = json.load(response)
        for (name, params), answer in zip(calls[first : first + 50], answers, strict=True):
            expected = here.call(name, *params)
            assert answer | {"id": 1} == expected, (name, params)
            said += is_pruned(answer, values.oldest)
    assert said > 10
    assert node.components()["chain"]["state"] == f"bodies kept of blocks {values.oldest} to 106"
    line = node.wait_for_line("bodies of blocks")
    assert str(values.oldest) in str(line)
