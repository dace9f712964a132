"""The mempool's methods through the engine, over the recorded chain with its state."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.mempool.chain import RECORDED_NOW, TOKEN_CLASS
from tests.mempool.recorded import expand, hashes, recordings, rows

from fastnode.api import simulation as simulation_methods
from fastnode.api import txs as tx_methods
from fastnode.api.chain import methods as chain_methods
from fastnode.app.ground.method_tables import Services
from fastnode.archiver.commit import ChainCommit
from fastnode.chain_data import ChainData
from fastnode.config.allow_list import AllowedElement
from fastnode.errors import Refused, UpstreamVerdict
from fastnode.fees.sources import ChainFees
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.log_index.function_names import FunctionNames
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.entries import TxState
from fastnode.mempool.pool import Added
from fastnode.mempool.service import Mempool, MempoolOptions
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.public_execution.service import Simulation
from fastnode.sources.chain_file import bundled_chain
from fastnode.sources.chain_import import import_chain_file
from fastnode.view import Committed, View

#: The recorded network's operator allowed two functions of the token.
EXTENSION = (
    AllowedElement(class_id=TOKEN_CLASS, selector=bytes.fromhex("e7f045ff"), calldata_length=3, only_self=True),
    AllowedElement(class_id=TOKEN_CLASS, selector=bytes.fromhex("8c9e5472"), calldata_length=5),
)
FRESH = hashes("fresh")
UNKNOWN = "0x" + "00" * 31 + "07"


async def _finish(pending: Awaitable[Reply]) -> Reply:
    return await pending


class PricesOfTest(ChainFees):
    """The chain's own prices until a test sets another one."""

    price: GasFees | None = None

    def current(self, view: Any) -> GasFees:
        return self.price or super().current(view)


class Node:
    """Chain, state and mempool of one data directory, without ports."""

    def __init__(self, data: ChainData, path: Path, *, undo_above: int | None = None, **options: Any) -> None:
        self.views_followed = 0
        self.ingestor = data.open_ingestor(verify=False, on_commit=self._on_commit)
        self.ingestor.catch_up()
        if undo_above is not None:
            self.ingestor.undo_above(undo_above)
        assert data.state is not None
        self._state = data.state
        self.view = View(self.ingestor.view, self._state.view)
        self.now = float(RECORDED_NOW)
        self._path = path
        self._options = MempoolOptions(setup_allow_list_extension=EXTENSION, **options)
        self.fees = PricesOfTest()
        self.names = FunctionNames()
        self.simulation = Simulation()
        #: Options with which a mempool is opened, from the next :meth:`restart_mempool` on.
        self.services: dict[str, Any] = {}
        self.mempool = self._open()

    def _open(self) -> Mempool:
        return Mempool.open(self._path, self.view, self._options, fees=self.fees, now=lambda: self.now, **self.services)

    def _on_commit(self, commit: ChainCommit) -> None:
        """As the node does: chain and state of a published view are at one block."""
        if hasattr(self, "mempool") and self._state.view.tip.number == commit.view.tip_number:
            self.view = View(commit.view, self._state.view)
            self.mempool.on_committed(Committed(self.view, commit.blocks, commit.undone))
            self.views_followed += 1

    def restart_mempool(self, **services: Any) -> None:
        self.services |= services
        self.mempool.close()
        self.mempool = self._open()

    def undo_above(self, number: int) -> None:
        self.ingestor.undo_above(number)
        assert self.view.chain.tip_number == number

    def call(self, method: str, *parameters: Any, method_set: str = "both") -> dict[str, Any]:
        """The answer's ``result`` or ``error``; neither for an absent result, as in the recordings."""
        services = Services(known_tags=KnownTags(64), allow_list=tuple, mempool=self.mempool)
        table = MethodTable(
            [
                *tx_methods.methods(self.mempool, self.fees),
                *simulation_methods.methods(self.simulation),
                *chain_methods(known_txs=services.known_txs),
            ],
            method_set,
        )
        bound = table.get(method)
        assert bound is not None, method
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        engine = Engine(table, lambda: self.view, omits_absent=True)
        # Threads are the engine's business; here the handlers run where they are called, if nothing comes before them.
        bound.in_thread = bound.prepare is not None
        reply = engine.handle(body)
        if not isinstance(reply, Reply):
            reply = asyncio.run(_finish(reply))
        answer: dict[str, Any] = orjson.loads(reply.text)
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def send(self, tx_hash: str) -> dict[str, Any]:
        return self.call("node_sendTx", recordings()[tx_hash]["tx"])


@pytest.fixture
def make_node(chain_directory: Path, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    with ExitStack() as stack:

        def make(**options: Any) -> Node:
            directory = tmp_path / "data"
            shutil.copytree(chain_directory, directory)
            data = stack.enter_context(ChainData.open(directory, create=False))
            node = Node(data, directory / "p2p", **options)
            stack.callback(lambda: node.mempool.close())
            return node

        yield make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()


def _json(tx_hash: str) -> dict[str, Any]:
    return dict(recordings()[tx_hash]["tx"])


# ---- recorded answers ------------------------------------------------------------------------------


def test_every_recorded_validation_and_submission_is_answered_alike(node: Node) -> None:
    asked = 0
    for row in rows("txs_answers"):
        if row["method"] == "node_simulatePublicCalls":
            continue
        # Unlike the reference this node does not ignore parameters that a method does not have.
        count = 1 if row["method"] == "node_sendTx" else 2
        answer = node.call(row["method"], *expand(row["params"])[:count])
        if "result" in row:
            assert answer == {"result": row["result"]}, row["params"]
        elif not row["params"]:
            assert answer["error"]["code"] == -32602
        elif "Invalid tx" in row["error"]["message"]:
            assert answer["error"]["message"] == row["error"]["message"]
            assert answer["error"]["code"] == -32000
        elif "max safe integer" in row["error"]["message"]:
            assert answer["result"]["result"] == "invalid"
        else:
            assert answer["error"]["code"] == -32602, row["params"]
        asked += 1
    assert asked == 353
    assert node.mempool.pool.pending_count == 0


def test_the_recorded_pending_queries_are_answered_alike(make_node: Callable[..., Node]) -> None:
    node = make_node(undo_above=64)
    assert node.view.chain.block_info(64) is not None
    node.now = node.view.chain.block_info(64).timestamp  # type: ignore[union-attr]
    recorded = rows("txs_pending")
    everything = next(row for row in recorded if row["method"] == "node_getPendingTxs" and not row["params"])
    for tx in everything["result"]:
        assert node.send(tx["$tx"]) == {}
    for row in recorded:
        if row["method"] == "node_getL2Tips":
            continue
        answer = node.call(row["method"], *expand(row["params"]))
        if "error" in row:
            assert answer["error"]["code"] == -32602
        else:
            assert answer == {key: expand(row[key]) for key in ("result",) if key in row}, row["params"]


def test_dropped_txs_have_the_recorded_receipt(node: Node) -> None:
    for row in rows("txs_dropped"):
        recorded = row["receipt"]["result"]
        assert node.call("node_getTxReceipt", row["txHash"], method_set="release") == {"result": recorded}
        # They were never sent here.
        assert node.call("node_getTxReceipt", row["txHash"]) == {"result": recorded | {"unknownHere": True}}


def test_a_tx_that_left_the_pool_is_dropped_with_its_reason(node: Node) -> None:
    tx_hash = FRESH[0]
    assert node.send(tx_hash) == {}
    node.mempool.pool.drop(bytes.fromhex(tx_hash[2:]), "low priority")
    dropped = {"txHash": tx_hash, "status": "dropped", "error": "Tx dropped by P2P node: low priority"}
    assert node.call("node_getTxReceipt", tx_hash) == {"result": dropped}
    node.restart_mempool()
    assert node.call("node_getTxReceipt", tx_hash, method_set="release") == {"result": dropped}


# ---- sending ---------------------------------------------------------------------------------------------


def test_a_sent_tx_can_be_found_everywhere(node: Node) -> None:
    tx_hash = FRESH[0]
    assert node.send(tx_hash) == {}
    assert node.call("node_getPendingTxCount") == {"result": 1}
    assert node.call("node_getTxByHash", tx_hash) == {"result": _json(tx_hash)}
    assert node.call("node_getTxsByHash", [UNKNOWN, tx_hash, tx_hash]) == {"result": [_json(tx_hash)] * 2}
    assert node.call("node_getPendingTxs", 50, None) == {"result": [_json(tx_hash)]}
    assert node.call("node_getTxReceipt", tx_hash) == {"result": {"txHash": tx_hash, "status": "pending"}}


def test_sending_twice_is_silent(node: Node) -> None:
    assert [node.send(FRESH[0]), node.send(FRESH[0])] == [{}, {}]
    assert node.call("node_getPendingTxCount") == {"result": 1}


def test_an_invalid_tx_is_refused_with_all_reasons(node: Node) -> None:
    node.now += 10 * 86_400
    error = node.send(hashes("sent")[0])["error"]
    assert error["message"] == "Invalid tx: Invalid expiration timestamp, Existing nullifier"
    assert error["code"] == -32000
    assert error["data"]["code"] == "INVALID_TX"
    assert error["data"]["reasons"] == ["Invalid expiration timestamp", "Existing nullifier"]


def test_a_skipped_tx_is_refused_too(node: Node) -> None:
    node.fees.price = GasFees(0, 10**30)
    error = node.send(FRESH[0])["error"]
    assert error["message"] == "Invalid tx: Insufficient fee per gas"
    assert error["data"]["result"] == "skipped"


def test_a_rule_of_the_pool_answers_with_its_code(make_node: Callable[..., Node]) -> None:
    node = make_node(p2p_max_pending_tx_count=1)
    assert node.send(FRESH[0]) == {}
    error = node.send(FRESH[1])["error"]
    assert error == {
        "code": -32000,
        "message": "Tx does not meet minimum priority fee. Required: 1, got: 0",
        "data": {
            "code": "LOW_PRIORITY_FEE",
            "message": "Tx does not meet minimum priority fee. Required: 1, got: 0",
            "minimumPriorityFee": "1",
            "txPriorityFee": "0",
        },
    }


def test_what_is_no_transaction_names_the_fault(node: Node) -> None:
    broken = _json(FRESH[0]) | {"chonkProof": "AAAA"}
    for method in ("node_sendTx", "node_isValidTx", "node_simulatePublicCalls"):
        error = node.call(method, broken)["error"]
        assert error["code"] == -32602
        assert error["message"].startswith("Invalid params: tx (parameter 1) is no transaction: chonkProof: 3 bytes")
        assert "an object" in node.call(method, "x")["error"]["message"]


def test_a_tx_whose_buffers_are_both_undecodable_is_only_an_error(node: Node) -> None:
    broken = _json(FRESH[0]) | {"data": "!", "chonkProof": "!"}
    assert node.call("node_isValidTx", broken)["error"]["code"] == -32602


def test_accepted_txs_are_handed_to_the_sink_once(node: Node) -> None:
    seen: list[bytes] = []

    class Sink:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            seen.append(tx_json)
            return True

    node.restart_mempool(sink=Sink())
    node.send(FRESH[0])
    node.send(FRESH[0])
    assert [orjson.loads(tx_json) for tx_json in seen] == [_json(FRESH[0])]


def test_what_another_node_holds_is_kept_but_not_handed_on(node: Node) -> None:
    class Sink:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            raise AssertionError("it came from there")

    node.restart_mempool(sink=Sink())
    assert node.mempool.receive(Tx.from_json(_json(FRESH[0]), FOUR), node.view) is Added.ACCEPTED
    assert node.call("node_getPendingTxCount") == {"result": 1}
    node.now += 10 * 86_400
    with pytest.raises(Refused, match="Invalid expiration timestamp"):
        node.mempool.receive(Tx.from_json(_json(FRESH[1]), FOUR), node.view)


def test_a_refusal_by_the_sink_is_the_answer_and_the_tx_leaves(node: Node) -> None:
    class Sink:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            raise UpstreamVerdict("they refuse", data={"code": "LOW_PRIORITY_FEE"}, code=-32702)

    node.restart_mempool(sink=Sink())
    error = node.send(FRESH[0])["error"]
    assert error == {"code": -32702, "message": "they refuse", "data": {"code": "LOW_PRIORITY_FEE"}}
    assert node.call("node_getPendingTxCount") == {"result": 0}
    assert node.call("node_getTxReceipt", FRESH[0])["result"]["status"] == "dropped"


# ---- the chain moves ---------------------------------------------------------------------------------------


def test_pending_txs_survive_a_restart(node: Node) -> None:
    for tx_hash in FRESH[:5]:
        assert node.send(tx_hash) == {}
    before = node.call("node_getPendingTxs")
    node.restart_mempool()
    assert node.call("node_getPendingTxs") == before
    assert len(before["result"]) == 5


def test_a_tx_whose_anchor_is_undone_is_dropped(node: Node) -> None:
    assert node.send(FRESH[0]) == {}
    node.undo_above(60)
    assert node.call("node_getTxReceipt", FRESH[0])["result"]["status"] == "dropped"
    assert node.call("node_getPendingTxCount") == {"result": 0}


def send_what_was_pending(node: Node) -> list[str]:
    """The recorded pool at block 64, sent to a node that is there; the hashes."""
    info = node.view.chain.block_info(64)
    assert info is not None
    node.now = info.timestamp
    pending = next(row["result"] for row in rows("txs_pending") if row["method"] == "node_getPendingTxs")
    sent = [str(tx["$tx"]) for tx in pending]
    assert all(node.send(tx_hash) == {} for tx_hash in sent)
    return sent


def test_blocks_take_their_txs_out_of_the_pool(make_node: Callable[..., Node]) -> None:
    node = make_node(undo_above=64)
    sent = send_what_was_pending(node)
    before = node.views_followed
    import_chain_file(node.ingestor, Path(str(bundled_chain())))
    assert node.views_followed > before + 42
    assert node.call("node_getPendingTxCount") == {"result": 0}
    statuses = {tx_hash: node.call("node_getTxReceipt", tx_hash)["result"]["status"] for tx_hash in sent}
    # All were mined and are final by now, but for one that expired while it waited.
    assert set(statuses.values()) == {"finalized", "dropped"}
    assert [tx_hash for tx_hash, status in statuses.items() if status == "dropped"] == [
        row["txHash"] for row in rows("txs_dropped") if row["label"] == "expires soon"
    ]
    assert [node.call("node_getTxByHash", tx_hash) for tx_hash in sent] == [{}] * len(sent)


def test_mined_txs_are_pending_again_after_a_reorg(make_node: Callable[..., Node]) -> None:
    """A transaction of block 65 is seen pending, mined, and pending again."""
    node = make_node(undo_above=64)
    sent = send_what_was_pending(node)
    states = []
    follow = node.mempool.pool.on_finalized
    node.mempool.pool.on_finalized = lambda number: None  # keep what is final, so that it can come back
    import_chain_file(node.ingestor, Path(str(bundled_chain())))
    states.append({node.mempool.pool.state_of(bytes.fromhex(tx_hash[2:])) for tx_hash in sent})
    node.undo_above(64)
    states.append({node.mempool.pool.state_of(bytes.fromhex(tx_hash[2:])) for tx_hash in sent})
    node.mempool.pool.on_finalized = follow
    assert states == [{TxState.MINED, TxState.DELETED}, {TxState.PENDING, TxState.DELETED}]


def test_the_mempool_waits_for_the_state(make_node: Callable[..., Node]) -> None:
    node = make_node()
    assert node.send(FRESH[0]) == {}
    node.mempool.close()
    full, node.view = node.view, View(node.view.chain)
    node.mempool = node._open()
    assert node.call("node_getPendingTxCount") == {"result": 1}
    assert "world state" in node.send(FRESH[1])["error"]["message"]
    node.view = full
    node.mempool.on_committed(Committed(full))
    assert node.send(FRESH[1]) == {}
    assert node.call("node_getPendingTxCount") == {"result": 2}


# ---- pages ---------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_without_gaps(node: Node) -> None:
    for tx_hash in FRESH[:7]:
        node.send(tx_hash)
    everything = [tx["txHash"] for tx in node.call("node_getPendingTxs")["result"]]
    assert everything == sorted(FRESH[:7], reverse=True)
    paged: list[str] = []
    after = None
    while page := [tx["txHash"] for tx in node.call("node_getPendingTxs", 3, after)["result"]]:
        paged += page
        after = page[-1]
    assert paged == everything


@pytest.mark.parametrize("limit", [0, 51, -1, "1", True, 1e300])
def test_a_limit_is_a_number_from_1_to_50(limit: Any, node: Node) -> None:
    error = node.call("node_getPendingTxs", limit)["error"]
    assert error["code"] == -32602
    assert "limit (parameter 1)" in error["message"]


def test_a_fraction_of_a_tx_is_no_tx(node: Node) -> None:
    for tx_hash in FRESH[:3]:
        node.send(tx_hash)
    assert len(node.call("node_getPendingTxs", 1.5)["result"]) == 1


def test_at_most_50_hashes_are_looked_up(node: Node) -> None:
    assert node.call("node_getTxsByHash", [UNKNOWN] * 50) == {"result": []}
    assert node.call("node_getTxsByHash", [UNKNOWN] * 51)["error"]["code"] == -32602


def test_an_unknown_tx_is_nothing(node: Node) -> None:
    assert node.call("node_getTxByHash", UNKNOWN) == {}


# ---- fees ------------------------------------------------------------------------------------------------------


def test_the_chain_files_fees_are_current_and_predicted(node: Node) -> None:
    current = {"feePerDaGas": "0", "feePerL2Gas": "10300000"}
    assert node.call("node_getCurrentMinFees") == {"result": current}
    for usage in (None, "none", "target"):
        answer = node.call("node_getPredictedMinFees", usage, method_set="development")
        assert answer == {"result": [current] * 3}, "there is no excess that could shrink"
    growing = node.call("node_getPredictedMinFees", "limit", method_set="development")["result"]
    assert [int(fees["feePerL2Gas"]) for fees in growing] == [10_300_000, 11_578_431, 13_015_539]
    error = node.call("node_getPredictedMinFees", "much")["error"]
    assert error["code"] == -32602


def test_the_best_offer_is_the_max_priority_fee(node: Node) -> None:
    assert node.call("node_getMaxPriorityFees") == {"result": {"feePerDaGas": "0", "feePerL2Gas": "0"}}
    node.send(FRESH[0])
    assert node.call("node_getMaxPriorityFees") == {"result": {"feePerDaGas": "0", "feePerL2Gas": "0"}}


def test_predicted_fees_are_of_the_development_set(node: Node) -> None:
    table = MethodTable(tx_methods.methods(node.mempool), "release")
    assert table.get("node_getPredictedMinFees") is None
    assert table.get("node_getCurrentMinFees") is not None
    assert len(MethodTable(tx_methods.methods(node.mempool), "both")) == len(table) + 1
