"""The methods of the state trees: recorded answers, every way to name a block, and what is refused.

``tests/data/queries_sample.jsonl.gz`` holds answers of the reference node about the sample chain at block 106;
FASTNODE_QUERIES=FILE takes a larger file of the same form.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from tests.world_state import verifier as plain

from fastnode.api.state import METHODS
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import GenesisRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import InvalidParams, Refused, RpcError, ServerError
from fastnode.jsonrpc.methods import Context, MethodSet, MethodTable
from fastnode.jsonrpc.refusals import answer_to
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View
from fastnode.world_state.state import WorldState

SAMPLE = Path(__file__).parents[1] / "data" / "queries_sample.jsonl.gz"
TIP = 106
RESPONSE_BYTES_MAX = 1 << 26
NULLIFIER, PUBLIC_DATA, ARCHIVE = 0, 2, 4


def hex_of(data: bytes) -> str:
    return "0x" + data.hex()


ZERO = hex_of(bytes(32))
A_FIELD = hex_of(bytes(31) + b"\x05")


# ---- the sample chain with its trees ----------------------------------------------------------


class Served:
    """A data directory with the chain and its trees."""

    def __init__(self, path: Path, source: Path, stack: ExitStack, *, history: int) -> None:
        self.store = stack.enter_context(ArchiverStore.open(path, create=True))
        adopt_chain_file(self.store, source)
        with self.store.open_view() as empty:
            genesis = GenesisRecord.from_json(orjson.loads(empty.genesis_json()))
        self.state = stack.enter_context(WorldState(path, genesis, history=history, rules=FOUR.trees))
        # The checks of the archiver are tested there; the trees check every root in any case.
        self.ingestor = Ingestor(self.store, verification=Verification.NONE, state=self.state)
        stack.callback(self.ingestor.close)
        self.empty = View(stack.enter_context(self.store.open_view()), self.state.view)
        import_chain_file(self.ingestor, source)

    def view(self) -> View:
        return View(self.ingestor.view, self.state.view)


def serve(path: Path, source: Path, *, history: int) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(path, source, stack, history=history)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("state"), sample_chain, history=0)


class Client:
    def __init__(self, view: View, method_set: MethodSet = "both") -> None:
        self.view = view
        self.table = MethodTable(METHODS, method_set)

    @property
    def chain(self) -> ChainView:
        return self.view.chain

    def result(self, method: str, *params: Any) -> Any:
        """The decoded result, None for nothing found; raises the RpcError that would be answered."""
        bound = self.table.get(f"node_{method}")
        assert bound is not None
        context = Context(self.view, self.table.method_set, RESPONSE_BYTES_MAX)
        try:
            answer = bound.answer(context, list(params))
        except Refused as refused:
            answered = answer_to(refused)
            assert answered is not None
            raise answered from None
        return None if answer is None else orjson.loads(answer)

    def refusal(self, method: str, *params: Any) -> RpcError:
        with pytest.raises(RpcError) as refused:
            self.result(method, *params)
        return refused.value

    def block_hash(self, number: int) -> str:
        info = self.chain.block_info(number)
        assert info is not None
        return hex_of(info.hash)

    def roots(self, number: int) -> tuple[bytes, ...]:
        """The five roots after a block, from the headers that the chain claims."""
        header = orjson.loads(self.chain.header_json(number) or b"")
        archive = orjson.loads(self.chain.archive_json(number) or b"")
        state, partial = header["state"], header["state"]["partial"]
        snapshots = (
            partial["nullifierTree"],
            partial["noteHashTree"],
            partial["publicDataTree"],
            state["l1ToL2MessageTree"],
            archive,
        )
        return tuple(bytes.fromhex(snapshot["root"][2:]) for snapshot in snapshots)


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return Client(served.view())


@pytest.fixture(scope="module")
def verifier() -> plain.Verifier:
    return plain.Verifier()


# ---- recorded answers -------------------------------------------------------------------------


class Query(NamedTuple):
    method: str  # without its namespace
    params: list[Any]
    answer: dict[str, Any]  # ``result`` or ``error`` or empty: nothing found


def read_queries() -> list[Query]:
    known = {method.name for method in METHODS}
    queries = []
    with gzip.open(os.environ.get("FASTNODE_QUERIES", SAMPLE)) as lines:
        for line in lines:
            record = orjson.loads(line)
            if record["method"] in known and not record.get("volatile"):
                answer = {key: record[key] for key in ("result", "error") if key in record}
                queries.append(Query(record["method"].removeprefix("node_"), record["params"], answer))
    return queries


QUERIES = read_queries()
GENESIS_HASH = "0x117e6b939d3c7895a9f9ca201a7693444d24e96bc81f37cb2af1a5cc51e21cab"
FIRST_HASH = "0x2facb4a4b41ff1fa697459ca929f7d5a8fb8763c0312b3855a9eddaff4de1766"


def is_about_the_genesis_state(query: Query) -> bool:
    """The reference answers from its latest state where the state after block 0 is meant."""
    meant = [0, GENESIS_HASH]
    if query.method == "getBlockHashMembershipWitness":
        meant += [1, FIRST_HASH]  # the archive before block 1
    return query.params[0:1] != [] and query.params[0] in meant and not is_refused_parameter(query)


def is_search_in_public_data(query: Query) -> bool:
    """The reference cannot read the leaves that it is given for this tree, and always fails."""
    return (
        query.method == "findLeavesIndexes" and query.params[1:2] == [PUBLIC_DATA] and not is_refused_parameter(query)
    )


def has_too_many_parameters(query: Query) -> bool:
    """The reference ignores them."""
    return len(query.params) > len(parameter_names(query.method))


def is_refused_parameter(query: Query) -> bool:
    message = query.answer.get("error", {}).get("message", "")
    return bool(message) and not any(
        words in message for words in ("must be non-negative", "beyond buffer length", "not yet synced", "not found")
    )


@pytest.mark.parametrize("method_set", ["both", "release", "development"])
@pytest.mark.parametrize("method", sorted({query.method for query in QUERIES}))
def test_recorded_answers_are_given_byte_for_byte(served: Served, method: str, method_set: MethodSet) -> None:
    client = Client(served.view(), method_set)
    compared = 0
    for query in QUERIES:
        if query.method != method or is_about_the_genesis_state(query) or is_search_in_public_data(query):
            continue
        if method_set == "development" and is_refused_there(client, query):
            continue
        compared += 1
        if "error" in query.answer or has_too_many_parameters(query):
            expected = ServerError if "error" in query.answer and not is_refused_parameter(query) else InvalidParams
            assert isinstance(client.refusal(method, *query.params), expected), query
        else:
            expected = query.answer.get("result")
            if method == "findLeavesIndexes":
                expected = with_genesis_leaves_in_block_0(client, expected, query.params[1])
            assert client.result(method, *query.params) == expected, query
    assert compared > 0


#: Leaves that are in the trees before the first block.
GENESIS_LEAVES = {0: 128, 1: 0, 2: 128, 3: 0, 4: 1}


def with_genesis_leaves_in_block_0(client: Client, places: Any, tree: int) -> Any:
    """The reference names block 1 for them."""
    block_0 = {"l2BlockNumber": 0, "l2BlockHash": client.block_hash(0)}
    return [
        place if place is None or int(place["data"]) >= GENESIS_LEAVES[tree] else place | block_0 for place in places
    ]


def is_refused_there(client: Client, query: Query) -> bool:
    """The development set proves absence only where something is absent."""
    if query.method != "getLowNullifierMembershipWitness" or "error" in query.answer or has_too_many_parameters(query):
        return False
    present = key_of(query.params[1]) == key_of(query.answer["result"]["leafPreimage"]["leaf"]["nullifier"])
    if present:
        assert client.result(query.method, *query.params) is None
    return present


def test_where_the_reference_answers_from_another_block_the_genesis_state_proves_it(
    client: Client, verifier: plain.Verifier
) -> None:
    asked = [query for query in QUERIES if is_about_the_genesis_state(query)]
    assert asked
    for query in asked:
        require_proven(client, verifier, 0, query.method, query.params)


def require_proven(client: Client, verifier: plain.Verifier, block: int, method: str, params: list[Any]) -> None:
    """Whatever is answered about the state after ``block`` leads to a root in that block's header."""
    answer = client.result(method, *params)
    nullifiers, notes, public_data, messages, archive = client.roots(block)
    if method == "getNullifierMembershipWitness" and answer is not None:
        witness = plain.read_nullifier_witness(answer)
        verifier.require_present(witness, key_of(params[1]), nullifiers, 42)
    elif method == "getLowNullifierMembershipWitness":
        require_low(verifier, plain.read_nullifier_witness(answer), key_of(params[1]), nullifiers, 42)
    elif method == "getPublicDataWitness":
        require_low(verifier, plain.read_public_data_witness(answer), key_of(params[1]), public_data, 40)
    elif method == "getNoteHashMembershipWitness" and answer is not None:
        verifier.require_leaf(plain.read_membership_witness(answer, 42), key_of(params[1]), notes, 42)
    elif method == "getL1ToL2MessageMembershipWitness" and answer is not None:
        verifier.require_leaf(plain.read_message_witness(answer), key_of(params[1]), messages, 36)
    elif method == "getBlockHashMembershipWitness" and answer is not None:
        verifier.require_leaf(plain.read_membership_witness(answer, 30), key_of(params[1]), archive, 30)


def key_of(text: str) -> bytes:
    return int(text, 16 if text.startswith("0x") else 10).to_bytes(32, "big")


def require_low(
    verifier: plain.Verifier, witness: plain.IndexedLeafWitness, key: bytes, root: bytes, height: int
) -> None:
    if witness.key == key:
        verifier.require_present(witness, key, root, height)
    else:
        verifier.require_absent(witness, key, root, height)


def test_every_recorded_question_gets_an_answer_that_its_block_proves(client: Client, verifier: plain.Verifier) -> None:
    for query in QUERIES:
        reference = query.params[0] if query.params else None
        if "error" in query.answer or has_too_many_parameters(query) or not isinstance(reference, int):
            continue
        # The archive that a block refers to is the one before it.
        block = max(0, reference - 1) if query.method == "getBlockHashMembershipWitness" else reference
        require_proven(client, verifier, block, query.method, query.params)


# ---- the genesis state --------------------------------------------------------------------------


def test_block_0_is_the_state_before_the_first_block(client: Client) -> None:
    first_nullifier = hex_of(b"".join(client.chain.load_block(1).body.tx_effects[0].nullifiers[:1]))  # type: ignore[union-attr]
    assert client.result("getNullifierMembershipWitness", 0, first_nullifier) is None
    assert client.result("getNullifierMembershipWitness", 1, first_nullifier) is not None
    assert client.result("getNullifierMembershipWitness", 0, hex_of(bytes(31) + b"\x7f"))["index"] == "127"
    assert client.result("getBlockHashMembershipWitness", 0, GENESIS_HASH) is None
    assert client.result("getBlockHashMembershipWitness", 1, GENESIS_HASH) is not None
    assert client.result("getBlockHashMembershipWitness", 1, client.block_hash(1)) is None


def test_the_block_after_the_tip_already_has_the_archive_it_will_refer_to(
    client: Client, verifier: plain.Verifier
) -> None:
    newest = client.block_hash(TIP)
    witness = plain.read_membership_witness(client.result("getBlockHashMembershipWitness", TIP + 1, newest), 30)
    assert witness.index == TIP
    verifier.require_leaf(witness, key_of(newest), client.roots(TIP)[4], 30)
    assert client.result("getBlockHashMembershipWitness", TIP, newest) is None
    assert isinstance(client.refusal("getBlockHashMembershipWitness", TIP + 2, newest), ServerError)


@pytest.mark.parametrize("reference", ["latest", 0, 1, TIP])
def test_genesis_leaves_name_block_0_at_any_reference_block(client: Client, reference: Any) -> None:
    [place] = client.result("findLeavesIndexes", reference, NULLIFIER, [A_FIELD])
    assert place == {"l2BlockNumber": 0, "l2BlockHash": client.block_hash(0), "data": "5"}


def test_public_data_is_found_by_slot(client: Client) -> None:
    leaf = client.result("getPublicDataWitness", "latest", A_FIELD)["leafPreimage"]["leaf"]
    assert leaf == {"slot": A_FIELD, "value": ZERO}
    slot = next(
        write.leaf_slot
        for number in range(1, TIP + 1)
        for effect in client.chain.load_block(number).body.tx_effects  # type: ignore[union-attr]
        for write in effect.public_data_writes
    )
    places = client.result("findLeavesIndexes", "latest", PUBLIC_DATA, [hex_of(slot), A_FIELD, hex_of(b"\1" * 32)])
    assert places[0]["data"] == client.result("getPublicDataWitness", "latest", hex_of(slot))["index"]
    assert places[1]["data"] == "5"
    assert places[2] is None


# ---- naming the block -----------------------------------------------------------------------------

CALLS: dict[str, list[Any]] = {
    "findLeavesIndexes": [NULLIFIER, [A_FIELD]],
    "getNullifierMembershipWitness": [A_FIELD],
    "getLowNullifierMembershipWitness": [hex_of(bytes(30) + b"\1\0")],
    "getPublicDataWitness": [A_FIELD],
    "getNoteHashMembershipWitness": [A_FIELD],
    "getBlockHashMembershipWitness": [GENESIS_HASH],
    "getL1ToL2MessageMembershipWitness": [A_FIELD],
    "getPublicStorageAt": [A_FIELD, A_FIELD],
}


@pytest.mark.parametrize("method", CALLS)
def test_every_way_to_name_a_block_gives_the_same_answer(client: Client, method: str) -> None:
    for block in (0, 1, 53, TIP):
        info = client.chain.block_info(block)
        assert info is not None
        names: list[Any] = [hex_of(info.hash), {"number": block}, {"hash": hex_of(info.hash)}]
        names.append({"archive": hex_of(info.archive_root)})
        expected = client.result(method, block, *CALLS[method])
        assert [client.result(method, name, *CALLS[method]) for name in names] == [expected] * len(names)
    tips = client.chain.tips
    blocks = {"finalized": tips.finalized.block, "proven": tips.proven.block, "checkpointed": tips.checkpointed.block}
    for tag, tip in blocks.items():
        expected = client.result(method, tip.number, *CALLS[method])
        assert client.result(method, tag, *CALLS[method]) == expected
        assert client.result(method, {"tag": tag}, *CALLS[method]) == expected
    newest = client.result(method, TIP, *CALLS[method])
    assert (
        client.result(method, "latest", *CALLS[method]) == client.result(method, "proposed", *CALLS[method]) == newest
    )


def test_the_release_set_knows_its_own_ways_only(served: Served) -> None:
    client = Client(served.view(), "release")
    for name in ({"number": 5}, "proven", {"tag": "proven"}):
        assert isinstance(client.refusal("getPublicDataWitness", name, A_FIELD), InvalidParams)


@pytest.mark.parametrize("method", CALLS)
def test_an_unknown_block_is_named(client: Client, method: str) -> None:
    unknown = hex_of(b"\x01" * 32)
    for name, words in (
        (unknown, f"Block hash {unknown} not found"),
        ({"archive": unknown}, f"Block with archive {unknown} not found"),
        (TIP + 2, f"block {TIP + 2} "),
        ({"number": 4_000_000_000}, "block 4000000000 "),
    ):
        refusal = client.refusal(method, name, *CALLS[method])
        assert isinstance(refusal, ServerError)
        assert words in refusal.message


# ---- absence ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method_set", "reference"), [("development", 5), ("both", {"number": 5}), ("both", "proven")])
def test_the_development_set_does_not_prove_the_absence_of_what_is_there(
    served: Served, method_set: MethodSet, reference: Any
) -> None:
    client = Client(served.view(), method_set)
    assert client.result("getLowNullifierMembershipWitness", reference, A_FIELD) is None
    assert Client(served.view()).result("getLowNullifierMembershipWitness", 5, A_FIELD)["index"] == "5"


@pytest.mark.parametrize(
    "method",
    ["getNullifierMembershipWitness", "getNoteHashMembershipWitness", "getL1ToL2MessageMembershipWitness"],
)
def test_what_is_not_there_is_not_found(client: Client, method: str) -> None:
    assert client.result(method, "latest", hex_of(b"\x01" * 32)) is None


def test_padding_is_not_found(client: Client) -> None:
    assert client.result("getNoteHashMembershipWitness", "latest", ZERO) is None
    assert client.result("getL1ToL2MessageMembershipWitness", "latest", ZERO) is None
    for tree in (1, 3, ARCHIVE):
        assert client.result("findLeavesIndexes", "latest", tree, [ZERO]) == [None]


def test_storage_that_was_never_written_is_zero(client: Client) -> None:
    assert client.result("getPublicStorageAt", "latest", hex_of(b"\x01" * 32), A_FIELD) == ZERO


# ---- the window of kept history ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("pruned"), sample_chain, history=5)


@pytest.mark.parametrize("method", CALLS)
def test_a_block_below_the_kept_history_is_refused_with_the_window(pruned: Served, served: Served, method: str) -> None:
    client = Client(pruned.view())
    oldest = pruned.state.view.oldest
    assert 0 < oldest < TIP
    for block in range(oldest, TIP + 1):
        expected = Client(served.view()).result(method, block, *CALLS[method])
        assert client.result(method, block, *CALLS[method]) == expected
    for reference in (oldest - 1, 0, {"number": oldest - 1}, client.block_hash(oldest - 1)):
        refusal = client.refusal(method, reference, *CALLS[method])
        assert isinstance(refusal, ServerError)
        assert f"below the oldest available block {oldest}" in refusal.message


def test_the_status_names_the_window(pruned: Served, served: Served) -> None:
    status = Client(served.view()).result("getWorldStateSyncStatus")
    assert status == {
        "latestBlockNumber": TIP,
        "latestBlockHash": Client(served.view()).block_hash(TIP),
        "finalizedBlockNumber": 92,
        "oldestHistoricBlockNumber": 1,
        "treesAreSynched": True,
    }
    kept = Client(pruned.view()).result("getWorldStateSyncStatus")
    assert kept == {**status, "oldestHistoricBlockNumber": pruned.state.view.oldest}


def test_an_empty_chain_has_a_state_too(served: Served) -> None:
    client = Client(served.empty)
    tips = client.chain.tips
    assert client.result("getWorldStateSyncStatus") == {
        "latestBlockNumber": 0,
        "latestBlockHash": hex_of(tips.proposed.hash),
        "finalizedBlockNumber": 0,
        "oldestHistoricBlockNumber": 0,
        "treesAreSynched": True,
    }
    assert client.result("getNullifierMembershipWitness", "latest", A_FIELD)["index"] == "5"
    assert client.result("findLeavesIndexes", "latest", NULLIFIER, [A_FIELD])[0]["l2BlockNumber"] == 0


def test_trees_that_are_behind_the_chain_say_so(served: Served) -> None:
    behind = View(served.view().chain, served.empty.state)
    assert Client(behind).result("getWorldStateSyncStatus")["treesAreSynched"] is False


def test_a_node_without_trees_says_so(served: Served) -> None:
    bare = Client(View(served.view().chain))
    for method, params in {**CALLS, "getWorldStateSyncStatus": None}.items():
        arguments = [] if params is None else ["latest", *params]
        assert "without its state trees" in bare.refusal(method, *arguments).message


# ---- parameters -----------------------------------------------------------------------------------------

BAD_FIELDS: list[Any] = [None, 5, True, [], {}, "", "0x", "x", "0x" + "00" * 33, "0x" + "ff" * 32]
BAD_BLOCKS: list[Any] = [
    None,
    -1,
    1.5,
    True,
    [],
    {},
    "earliest",
    {"number": 1, "hash": A_FIELD},
    {"tag": "latest"},
    "0x",
]


def parameter_names(method: str) -> list[str]:
    bound = MethodTable(METHODS).get(f"node_{method}")
    assert bound is not None
    return [parameter.name for parameter in bound.parameters]


def require_invalid(client: Client, method: str, params: list[Any], position: int) -> None:
    refusal = client.refusal(method, *params)
    assert isinstance(refusal, InvalidParams), params
    assert f"{parameter_names(method)[position]}" in refusal.message, params
    assert f"(parameter {position + 1})" in refusal.message, params


@pytest.mark.parametrize("method", CALLS)
def test_a_wrong_parameter_is_named(client: Client, method: str) -> None:
    good = ["latest", *CALLS[method]]
    for position in range(len(good)):
        require_invalid(client, method, good[:position], position)
        bad = BAD_BLOCKS if position == 0 else BAD_FIELDS
        if method == "findLeavesIndexes" and position > 0:
            bad = (
                [None, "0", 5, -1, 0.5, True, [], {}]
                if position == 1
                else [None, 5, "x", {}, *([v] for v in BAD_FIELDS)]
            )
        for value in bad:
            require_invalid(client, method, [*good[:position], value, *good[position + 1 :]], position)
    too_many = client.refusal(method, *good, "one more")
    assert isinstance(too_many, InvalidParams)
    assert f"takes at most {len(good)} parameters" in too_many.message


def test_the_status_takes_no_parameters(client: Client) -> None:
    assert "takes no parameters" in client.refusal("getWorldStateSyncStatus", "latest").message


def test_at_most_100_leaves_are_looked_for_at_once(client: Client) -> None:
    assert client.result("findLeavesIndexes", "latest", NULLIFIER, []) == []
    places = client.result("findLeavesIndexes", "latest", NULLIFIER, [A_FIELD] * 100)
    assert len(places) == 100
    refusal = client.refusal("findLeavesIndexes", "latest", NULLIFIER, [A_FIELD] * 101)
    assert isinstance(refusal, InvalidParams)
    assert "an array of at most 100, got 101" in refusal.message


Transform = Callable[[str], str]
SPELLINGS: list[Transform] = [
    str,
    lambda text: text.upper().replace("0X", "0x"),
    lambda text: "0x" + text[2:].lstrip("0"),
    lambda text: str(int(text, 16)),
]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_field_may_be_spelled_short_upper_or_decimal(client: Client, spelled: Transform) -> None:
    for method in ("getPublicDataWitness", "getNullifierMembershipWitness"):
        expected = client.result(method, "latest", A_FIELD)
        assert client.result(method, "latest", spelled(A_FIELD)) == expected
