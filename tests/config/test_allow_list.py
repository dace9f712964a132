"""The setup allow list: defaults, grammar, and what is said of a bad entry."""

from __future__ import annotations

import pytest

from fastnode.config.allow_list import AllowedElement, parse_allow_list
from fastnode.mempool.allow_list import default_allow_list
from fastnode.protocol.releases import FOUR
from fastnode.values.refusal import Reject

OWNER = "0x" + "12" * 32
BYTES = bytes.fromhex("12" * 32)


def test_the_defaults_are_those_of_the_network() -> None:
    address = "0x" + "0" * 63
    assert [element.to_json() for element in default_allow_list(FOUR)] == [
        {
            "address": address + "1",
            "selector": "0x61966b7c",
            "calldataLength": 4,
            "onlySelf": True,
            "rejectNullMsgSender": True,
        },
        {"address": address + "1", "selector": "0xb839de91", "calldataLength": 3, "rejectNullMsgSender": True},
        {"address": address + "5", "selector": "0xe7f045ff", "calldataLength": 3, "onlySelf": True},
    ]


def test_entries_name_instances_and_classes_with_their_flags() -> None:
    text = f" I:{OWNER}:0x00000001 ,, C:{OWNER[2:]}:00000002:os+cl=0+rn,"
    assert parse_allow_list(text) == (
        AllowedElement(address=BYTES, selector=b"\0\0\0\1"),
        AllowedElement(
            class_id=BYTES, selector=b"\0\0\0\2", calldata_length=0, only_self=True, reject_null_msg_sender=True
        ),
    )
    assert parse_allow_list(text)[1].to_json() == {
        "classId": OWNER,
        "selector": "0x00000002",
        "calldataLength": 0,
        "onlySelf": True,
        "rejectNullMsgSender": True,
    }


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
def test_an_empty_list_is_no_entry(text: str) -> None:
    assert parse_allow_list(text) == ()


FORMAT = "Expected format: I:address:selector or C:classId:selector"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"I:{OWNER}", f"selector is required. {FORMAT}"),
        (f"X:{OWNER}:", f"selector is required. {FORMAT}"),
        ("nonsense", f"selector is required. {FORMAT}"),
        (f"X:{OWNER}:0x1", 'invalid selector "0x1". Expected 0x and 8 hex digits.'),
        (f"X:{OWNER}:0x00000001:zz", 'unknown flag "zz". Supported flags: os, rn, cl=N.'),
        (f"I:{OWNER}:0x00000001:os+", 'unknown flag "". Supported flags: os, rn, cl=N.'),
        (
            f"X:{OWNER}:0x00000001:cl=-1",
            'invalid calldataLength in flag "cl=-1". Expected a non-negative integer.',
        ),
        (f"I:{OWNER}:0x00000001:cl=", 'invalid calldataLength in flag "cl=". Expected a non-negative integer.'),
        (f"X:{OWNER}:0x00000001:os", 'unknown type "X". Expected "I" (instance) or "C" (class).'),
        (f"i:{OWNER}:0x00000001", 'unknown type "i". Expected "I" (instance) or "C" (class).'),
        (
            "I:0x1:0x00000001",
            'invalid address or class id "0x1". Expected 0x and 64 hex digits, below the field modulus.',
        ),
        (
            f"I:{'f' * 64}:0x00000001",
            f'invalid address or class id "{"f" * 64}". Expected 0x and 64 hex digits, below the field modulus.',
        ),
    ],
)
def test_a_bad_entry_is_named_with_its_first_mistake(entry: str, reason: str) -> None:
    with pytest.raises(Reject) as caught:
        parse_allow_list(f"I:{OWNER}:0x00000001, {entry}")
    assert caught.value.reason == f'Invalid allow list entry "{entry}": {reason}'
