"""Values that each parameter type takes and refuses, and its words about them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.api import chain_parameters as chain
from fastnode.api import local_network_parameters as local
from fastnode.api.chain_parameters import BlockName, BlockReference, BlockReferenceKind, CheckpointReferenceKind
from fastnode.values import refusal
from fastnode.values.arrays import ArrayOf
from fastnode.values.field_elements import ADDRESS, BLOCK_HASH, FIELD, TX_HASH
from fastnode.values.numbers import Integer, read_integer_text
from fastnode.values.refusal import Reject
from fastnode.values.texts import ETH_ADDRESS, Text

MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617
HASH = "0x" + "0a" * 32
HASH_BYTES = b"\x0a" * 32

# fmt: off
NO_FIELDS = [
    "", "0x", "abc", "0xg", "0x" + "0" * 65, hex(MODULUS), str(MODULUS), "-1", "1.0", " 1", "0x 1", "\u0663",
    5, None, True, [], {},
]
NO_HASHES = [
    "0x1", "1", HASH + "0", HASH[:-1], "0x" + "f" * 64, "0x" + "g" * 64, HASH + "\n", "", 1, None, True, [], {},
]
NUMBERS_AS_TEXT = [
    ("5", 5), (" 5\n", 5), ("+5", 5), ("-5", -5), ("5.0", 5), ("5.", 5), ("1e3", 1000), (".5e1", 5),
    ("0x1F", 31), ("0b11", 3), ("0o17", 15), ("00012", 12),
]
NO_WHOLE_NUMBERS = [
    "", " ", "x", "1.5", "1e-1", "0x", "0x-1", "0xg", "1_000", "1,5", "--1", "Infinity", "NaN", "1e999", "9" * 100,
    "\u0663",
]
NO_BLOCKS = [
    -1, 1.5, True, None, [], "", "x", "-1", "0x", "0x" + "f" * 64, "Latest",
    {}, {"number": 1, "hash": HASH}, {"tag": "latest"}, {"number": None}, {"Number": 1}, {"hash": 5}, {"archive": "x"},
]
NO_CHECKPOINTS = [
    -1, 1.5, "latest", "x", True, None, [], {}, {"slot": -1}, {"number": 1, "slot": 1}, {"hash": HASH},
]
NO_CHECKPOINTS_QUERIES = [
    {}, {"from": 1}, {"limit": 1}, {"from": 1, "limit": 0}, {"from": -1, "limit": 1}, {"from": 1, "limit": "1"},
    {"epoch": 1, "from": 1}, {"epoch": 1, "x": 1}, None, [], 5,
]
# fmt: on


def accepts(kind: Any, value: object) -> bool:
    try:
        kind.from_json(value)
    except Reject:
        return False
    return True


# ---- fields, hashes, addresses ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("0x1", 1), ("0x0A", 10), ("0x" + "0" * 63 + "1", 1), ("10", 10), ("0", 0), ("0xabc", 0xABC), ("007", 7)],
)
def test_a_field_is_hex_with_0x_or_decimal_digits(text: str, number: int) -> None:
    assert FIELD.from_json(text) == number.to_bytes(32, "big")
    assert BLOCK_HASH.from_json(text) == number.to_bytes(32, "big")


@pytest.mark.parametrize("value", NO_FIELDS)
def test_nothing_else_is_a_field(value: object) -> None:
    assert not accepts(FIELD, value)


@given(number=st.integers(0, MODULUS - 1))
def test_every_field_is_read_in_every_form(number: int) -> None:
    expected = number.to_bytes(32, "big")
    for text in (hex(number), f"0x{number:064X}", str(number)):
        assert FIELD.from_json(text) == expected
    for text in (f"0x{number:064x}", f"{number:064x}", f"0x{number:064X}"):
        assert TX_HASH.from_json(text) == expected
        assert ADDRESS.from_json(text) == expected


@pytest.mark.parametrize("value", NO_HASHES)
def test_hashes_of_transactions_and_addresses_need_all_64_digits(value: object) -> None:
    assert not accepts(TX_HASH, value)
    assert not accepts(ADDRESS, value)


#: As hashes, addresses, block parameters and numbers: ``0X``, blanks, and more digits than a field element has.
BADLY_WRITTEN = [
    form
    for text in ("0x5", "0x" + "0" * 63 + "5", "0x" + "12" * 20)
    for form in (text.replace("0x", "0X"), f" {text}", f"{text} ", f"{text}\n", text.replace("0x", "0x "))
] + ["0x" + "0" * 64 + "5", "0x" + "0" * 66 + "05", "0x٥"]


@pytest.mark.parametrize("text", BADLY_WRITTEN)
def test_hex_that_is_badly_written_is_refused_whatever_it_is_for(text: str) -> None:
    kinds = [FIELD, BLOCK_HASH, TX_HASH, ADDRESS, ETH_ADDRESS, chain.RELEASE_BLOCK, chain.DEVELOPMENT_BLOCK]
    kinds += [Integer(accepts_text=True), chain.BLOCK_NUMBER]
    assert [kind for kind in kinds if accepts(kind, text)] == []
    assert read_integer_text(text) is None


# ---- numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "number"), NUMBERS_AS_TEXT)
def test_numbers_as_text_are_read_as_javascript_reads_them(text: str, number: int) -> None:
    assert read_integer_text(text) == number


@pytest.mark.parametrize("text", NO_WHOLE_NUMBERS)
def test_what_is_no_whole_number_is_none(text: str) -> None:
    assert read_integer_text(text) is None


def test_a_number_keeps_within_its_bounds_and_names_them() -> None:
    kind = Integer(minimum=1, maximum=50)
    assert [kind.from_json(value) for value in (1, 50, 2.0)] == [1, 50, 2]
    for value in (0, 51, -1.0, 1e30):
        with pytest.raises(Reject, match="must be a whole number from 1 to 50, got "):
            kind.from_json(value)
    for wrong in (1.5, "1", True, None, [1], float("inf"), float("nan")):
        with pytest.raises(Reject, match="must be a whole number"):
            kind.from_json(wrong)
    assert Integer(accepts_text=True).from_json("7") == 7


# ---- choices, flags, arrays ---------------------------------------------------------------------


def test_a_choice_takes_its_words_only() -> None:
    assert chain.CHAIN_TIP.from_json("proven") == "proven"
    for wrong in ("latest", "Proven", "", None, 1, ["proven"], {}):
        with pytest.raises(Reject, match="must be proposed, checkpointed, proven or finalized"):
            chain.CHAIN_TIP.from_json(wrong)


def test_a_tree_is_named_by_its_number() -> None:
    assert [chain.MERKLE_TREE_ID.from_json(value) for value in (0, 4, 2.0)] == [0, 4, 2]
    for wrong in (5, -1, "0", True, None, 0.5, [0]):
        with pytest.raises(Reject, match="0 \\(nullifier\\)"):
            chain.MERKLE_TREE_ID.from_json(wrong)


def test_options_are_real_booleans_and_unknown_ones_are_rejected_with_the_nearest_name() -> None:
    kind = chain.BLOCK_INCLUDE_OPTIONS
    chosen = kind.from_json({"includeTransactions": True, "includeAttestations": False})
    assert chosen == {"includeTransactions"}
    for misspelt in ("includeTransaction", "includetransactions", "include_transactions"):
        with pytest.raises(Reject) as caught:
            kind.from_json({misspelt: True})
        assert caught.value.reason == (
            f'has no member "{misspelt}", only includeTransactions, includeL1PublishInfo, includeAttestations '
            "(did you mean includeTransactions?)"
        )
    with pytest.raises(Reject, match=r'has no member "x", only [^()]*$'):
        kind.from_json({"x": True})
    with pytest.raises(Reject) as caught:
        kind.from_json({"includeTransactions": "true"})
    assert caught.value.path == ".includeTransactions"
    for wrong in (None, [], True, "includeTransactions"):
        assert not accepts(kind, wrong)


def test_an_array_has_a_limit_and_names_the_bad_element() -> None:
    kind = ArrayOf(FIELD, 3)
    assert kind.from_json(["1", "2"]) == ((1).to_bytes(32, "big"), (2).to_bytes(32, "big"))
    with pytest.raises(Reject, match="at most 3, got 4"):
        kind.from_json(["1"] * 4)
    with pytest.raises(Reject) as caught:
        kind.from_json(["1", "x"])
    assert caught.value.path == "[1]"


def test_a_text_has_a_limit() -> None:
    assert Text(length_max=3).from_json("abc") == "abc"
    with pytest.raises(Reject, match="1 to 3 characters, got 4"):
        Text(length_max=3).from_json("abcd")


# ---- blocks -------------------------------------------------------------------------------------

NUMBER, HASH_KIND, ARCHIVE, TIP = BlockReferenceKind


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        (5, 5),
        (5.0, 5),
        ("  2 ", 2),
        (10**30, 10**30),
        (1e30, int(1e30)),
        ("1", (1).to_bytes(32, "big")),
        (HASH, HASH_BYTES),
        ("latest", BlockReference(TIP, "proposed")),
    ],
)
def test_both_sets_name_a_block_in_these_ways(value: object, reference: BlockName) -> None:
    assert chain.RELEASE_BLOCK.from_json(value) == reference
    assert chain.DEVELOPMENT_BLOCK.from_json(value) == reference


@pytest.mark.parametrize(
    ("value", "kind", "content"),
    [
        ({"number": 5}, NUMBER, 5),
        ({"number": "5"}, NUMBER, 5),
        ({"hash": HASH}, HASH_KIND, HASH_BYTES),
        ({"archive": "1"}, ARCHIVE, (1).to_bytes(32, "big")),
        ({"tag": "proven"}, TIP, "proven"),
        ("proven", TIP, "proven"),
        ("proposed", TIP, "proposed"),
    ],
)
def test_the_development_set_has_more_ways(value: object, kind: BlockReferenceKind, content: object) -> None:
    assert not accepts(chain.RELEASE_BLOCK, value)
    assert chain.DEVELOPMENT_BLOCK.from_json(value) == BlockReference(kind, content, is_development_form=True)


@pytest.mark.parametrize("value", NO_BLOCKS)
def test_these_name_no_block(value: object) -> None:
    assert not accepts(chain.RELEASE_BLOCK, value)
    assert not accepts(chain.DEVELOPMENT_BLOCK, value)


@given(value=st.none() | st.integers() | st.floats() | st.text() | st.dictionaries(st.text(), st.integers()))
def test_the_development_set_reads_all_parameters_of_the_release_set_alike(value: object) -> None:
    if accepts(chain.RELEASE_BLOCK, value):
        assert chain.DEVELOPMENT_BLOCK.from_json(value) == chain.RELEASE_BLOCK.from_json(value)


# ---- checkpoints --------------------------------------------------------------------------------


def test_a_checkpoint_is_named_by_number_slot_or_tip() -> None:
    kind = chain.CHECKPOINT_PARAMETER
    for value in (5, {"number": 5}, "5"):
        assert kind.from_json(value) == (CheckpointReferenceKind.NUMBER, 5)
    assert kind.from_json({"slot": 7}) == (CheckpointReferenceKind.SLOT, 7)
    assert kind.from_json("proven") == (CheckpointReferenceKind.TIP, "proven")
    for wrong in NO_CHECKPOINTS:
        assert not accepts(kind, wrong)


def test_checkpoints_are_a_range_or_an_epoch() -> None:
    kind = chain.CHECKPOINTS_QUERY
    assert kind.from_json({"from": 0, "limit": 10**9}) == (0, 10**9)
    assert kind.from_json({"epoch": 3}) == (3,)
    for wrong in NO_CHECKPOINTS_QUERIES:
        assert not accepts(kind, wrong)


# ---- log filters --------------------------------------------------------------------------------


def test_a_log_filter_reads_what_is_there() -> None:
    log_id = {"blockNumber": 1, "blockHash": HASH, "txHash": HASH, "txIndex": 0, "logIndex": "3"}
    read = chain.LOG_FILTER.from_json({"fromBlock": "-5", "afterLog": log_id, "tag": "1"})
    assert (read.from_block, read.to_block, read.tag) == (-5, None, (1).to_bytes(32, "big"))
    assert read.after_log == (1, HASH_BYTES, HASH_BYTES, 0, 3)
    with pytest.raises(Reject) as caught:
        chain.LOG_FILTER.from_json({"afterLog": {**log_id, "txHash": "x"}})
    assert caught.value.path == ".afterLog.txHash"
    with pytest.raises(Reject, match="is required") as caught:
        chain.LOG_FILTER.from_json({"afterLog": {}})
    assert caught.value.path == ".afterLog.blockNumber"
    for wrong in ({"fromBlock": None}, {"toBlock": 1.5}, {"contractAddress": "0x1"}, {"afterLog": None}, [], None, "x"):
        assert not accepts(chain.LOG_FILTER, wrong)


# ---- what errors say ----------------------------------------------------------------------------


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_a_refused_value_is_described_in_a_few_printable_characters(value: object) -> None:
    text = refusal.describe(value)
    assert text.isprintable()
    assert len(text) <= 64 + 10 * refusal.QUOTED_LENGTH_MAX
    text.encode("utf-8")


MESSAGE = {"sender": "0x" + "01" * 20, "recipient": HASH, "content": HASH, "secretHash": HASH}


@pytest.mark.parametrize(
    ("kind", "value", "misspelt"),
    [
        (local.MESSAGE, MESSAGE, "secrethash"),
        (local.BLOCK_TIME, {"timestamp": 5}, "block"),
        (local.DEPTH, {"depth": 1}, "dept"),
        (local.FORK_OPTIONS, {"fork": {"source": "chain"}}, "frok"),
    ],
)
def test_objects_of_our_own_have_no_members_that_nobody_reads(kind: Any, value: dict[str, Any], misspelt: str) -> None:
    kind.from_json(value)
    with pytest.raises(Reject, match=rf'^has no member "{misspelt}", only '):
        kind.from_json(value | {misspelt: 1})


def test_a_misspelt_member_of_a_fork_is_refused() -> None:
    with pytest.raises(Reject, match='has no member "blockNo", only source, jsonRpcUrl, blockNumber'):
        local.FORK_OPTIONS.from_json({"fork": {"source": "chain", "blockNo": 5}})
