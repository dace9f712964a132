"""Words of contracts, against the selectors and topics of the deployed ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.errors import DecodeError
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import (
    Event,
    Function,
    Kind,
    from_amount,
    from_quantity,
    hex_data,
    quantity,
)

WORD = 32


@pytest.mark.parametrize(
    ("function", "selector"),
    [
        (contracts.CANONICAL_ROLLUP, "971b0e6b"),
        (contracts.ROLLUP_OF_VERSION, "dd1583c2"),
        (contracts.VERSION, "0d8e6e2c"),
        (contracts.INBOX, "368c093c"),
        (contracts.OUTBOX, "a32fbb7b"),
        (contracts.FEE_ASSET_PORTAL, "8ccf6b95"),
        (contracts.DEPLOYMENT_BLOCK, "79ed8ead"),
        (contracts.GENESIS_TIME, "723d8e96"),
        (contracts.SLOT_DURATION, "c4014c12"),
        (contracts.EPOCH_DURATION, "5d3ea8f1"),
        (contracts.PROOF_SUBMISSION_EPOCHS, "25b22366"),
        (contracts.TARGET_COMMITTEE_SIZE, "7de3ca89"),
        (contracts.STATUS, "42d21ef7"),
        (contracts.COMMITTEE_AT, "1cfe2878"),
        (contracts.ESCAPE_HATCH, "a2294748"),
        (contracts.ESCAPE_HATCH_OF_EPOCH, "15d3bc7b"),
        (contracts.IS_HATCH_OPEN, "3a30aefe"),
        (contracts.PROVEN_CHECKPOINT, "1f8352e9"),
        (contracts.ARCHIVE_AT, "3777e863"),
        (contracts.CAN_PRUNE_AT_TIME, "dc1bb8f4"),
        (contracts.CHECKPOINT, "20fc4881"),
        (contracts.MANA_TARGET, "3f47ad06"),
        (contracts.MANA_LIMIT, "29c24030"),
        (contracts.PROVING_COST_PER_MANA, "4eb4a4d6"),
        (contracts.L1_FEES_AT, "5f82401f"),
        (contracts.MANA_MIN_FEE_AT, "766d01b4"),
        (contracts.COMMITTEE_OF_EPOCH, "69457a6f"),
        (contracts.PROPOSER_AT, "c27f08b5"),
        (contracts.INBOX_STATE, "1865c57d"),
        (contracts.OUTBOX_ROOT, "2249f653"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_function_has_the_selector_of_the_deployed_contract(function: Function, selector: str) -> None:
    assert function.selector.hex() == selector


def test_a_log_of_a_message_is_read_as_it_was_recorded() -> None:
    log = {
        "topics": [
            "0xe3afb584bcff3adb9d452d2e1ccbcd4aee164ae2a8cdab637aecf866a53fbb77",
            "0x" + "08".rjust(64, "0"),
            "0x0084da7627506624c64a17aa5479d06f9d043a440afa9ffcaadccae796dc5f8f",
        ],
        "data": "0x" + "1c00".rjust(64, "0") + "5cb302ec9f223c73d4450726786ca138".ljust(64, "0"),
    }
    checkpoint, message, index, rolling_hash = contracts.MESSAGE_SENT.decode(log)
    assert (checkpoint, index) == (8, 7168)
    assert message.hex() == "0084da7627506624c64a17aa5479d06f9d043a440afa9ffcaadccae796dc5f8f"
    assert rolling_hash.hex() == "5cb302ec9f223c73d4450726786ca138"


@given(st.integers(0, 2**256 - 1), st.binary(min_size=20, max_size=20), st.binary(min_size=32, max_size=32))
def test_arguments_and_outputs_have_the_same_words(number: int, address: bytes, word: bytes) -> None:
    function = Function("f(uint256,address,bytes32)", Kind.NUMBER, Kind.ADDRESS, Kind.BYTES32)
    data = bytes.fromhex(function.encode(number, address, word)[2:])
    assert data[:4] == function.selector
    assert function.decode(hex_data(data[4:])) == (number, address, word)


@given(st.lists(st.binary(min_size=20, max_size=20), max_size=5))
def test_an_array_of_addresses_is_read(addresses: list[bytes]) -> None:
    function = Function("f()", Kind.ADDRESSES)
    words = [
        WORD.to_bytes(WORD, "big"),
        len(addresses).to_bytes(WORD, "big"),
        *(a.rjust(WORD, b"\0") for a in addresses),
    ]
    assert function.decode(hex_data(b"".join(words))) == (tuple(addresses),)
    with pytest.raises(DecodeError, match="array"):
        function.decode(hex_data(b"".join([*words, bytes(WORD)])))


@pytest.mark.parametrize("answer", ["0x", "0x00", None, 5, "zz", "0x" + "00" * 31, {"a": 1}])
def test_an_answer_that_is_too_short_or_no_data_names_the_function(answer: object) -> None:
    with pytest.raises(DecodeError, match="getVersion"):
        contracts.VERSION.decode(answer)


def test_an_address_with_other_bits_set_is_refused() -> None:
    with pytest.raises(DecodeError, match="no address"):
        contracts.INBOX.decode("0x" + "ff" * WORD)


def test_a_flag_is_zero_or_one() -> None:
    assert contracts.CAN_PRUNE_AT_TIME.decode("0x" + "01".rjust(64, "0")) == (True,)
    with pytest.raises(DecodeError, match="no boolean"):
        contracts.CAN_PRUNE_AT_TIME.decode("0x" + "02".rjust(64, "0"))


@pytest.mark.parametrize(
    "log",
    [
        {"topics": [], "data": "0x"},
        {"topics": ["0x" + "00" * WORD] * 3, "data": "0x" + "00" * 64},
        {"topics": [contracts.MESSAGE_SENT.topic, "0x" + "00" * WORD, "0x" + "00" * WORD], "data": "0x" + "00" * 32},
        {"topics": None},
    ],
)
def test_a_log_of_another_shape_is_refused(log: dict[str, object]) -> None:
    with pytest.raises(DecodeError, match="MessageSent"):
        contracts.MESSAGE_SENT.decode(log)


def test_an_event_without_indexed_arguments_has_one_topic() -> None:
    event = Event("E(uint256)", (), (Kind.NUMBER,))
    assert event.decode({"topics": [event.topic], "data": "0x" + "07".rjust(64, "0")}) == (7,)


@given(st.integers(0, 2**256 - 1))
def test_quantities_are_hexadecimal(number: int) -> None:
    assert from_amount(quantity(number), "n") == number
    if number <= JSON_INTEGER_MAX:
        assert from_quantity(quantity(number), "n") == number
        return
    with pytest.raises(DecodeError, match=r"n: 0x.* is no count"):
        from_quantity(quantity(number), "n")


@given(st.integers(0, 2**256 - 1) | st.integers(JSON_INTEGER_MAX - 1, JSON_INTEGER_MAX + 2))
def test_a_count_is_no_more_than_json_holds_exactly(number: int) -> None:
    words = "0x" + number.to_bytes(32, "big").hex()
    assert Function("f()", Kind.NUMBER).decode(words) == (number,)
    count = Function("f()", Kind.COUNT)
    if number <= JSON_INTEGER_MAX:
        assert count.decode(words) == (number,)
        return
    with pytest.raises(DecodeError, match="is no count"):
        count.decode(words)


@pytest.mark.parametrize("value", [None, 5, "5", "0x", "0xzz", "0x1" + "0" * 64])
def test_what_is_no_quantity_is_named(value: object) -> None:
    with pytest.raises(DecodeError, match=r"block\.number"):
        from_quantity(value, "block.number")
