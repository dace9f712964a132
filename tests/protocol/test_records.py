"""Tables of records: all forms follow from the members of a class."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from fastnode.api.record_schemas import DOCS, RECORDS, components
from fastnode.development.client_code import render as render_client
from fastnode.errors import DecodeError
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.records import (
    FIELD,
    Record,
    decimal,
    field_number,
    hashes,
    many,
    member,
    number,
    of,
    optional,
    record,
)

PROJECT = Path(__file__).parents[2]
ONE = bytes(31) + b"\1"
ONE_TEXT = "0x" + ONE.hex()


@record
class Place(Record):
    """A place."""

    street_name: bytes = member(FIELD)
    house: int = member(number(width=2, maximum=999))


@record
class Letter(Record):
    """Everything that a member may be."""

    buffer_order: ClassVar = ("sender", "postage", "to", "hashes", "others", "weight_g", "stamp")

    to: Place = member(of(Place))
    sender: Place = member(of(Place))
    postage: int = member(decimal(64), "In the smallest unit.", json="price")
    weight_g: int = member(field_number(16, width=2))
    hashes: tuple[bytes, ...] = member(hashes(2))
    others: tuple[Place, ...] = member(many(Place, 3, count_width=4))
    stamp: int | None = optional(field_number(), "Not on each.", default=None)


HERE, THERE = Place(ONE, 3), Place(ONE, 4)
LETTER = Letter(HERE, THERE, 5, 6, (ONE,), (HERE,))
JSON = {
    "to": {"streetName": ONE_TEXT, "house": 3},
    "sender": {"streetName": ONE_TEXT, "house": 4},
    "price": "5",
    "weightG": f"0x{6:064x}",
    "hashes": [ONE_TEXT],
    "others": [{"streetName": ONE_TEXT, "house": 3}],
}


def test_json_has_the_members_in_their_order_and_inside_of_their_objects() -> None:
    assert LETTER.to_json() == JSON
    assert list(LETTER.to_json()) == list(JSON)
    assert Letter.from_json(JSON) == LETTER


def test_a_member_that_a_release_lacks_is_in_no_form() -> None:
    stamped = Letter(*[getattr(LETTER, row.name) for row in Letter.MEMBERS[:-1]], 7)
    assert Letter.from_json(JSON | {"stamp": f"0x{7:064x}"}) == stamped
    assert stamped.to_json()["stamp"] == f"0x{7:064x}"
    assert stamped.to_buffer() == LETTER.to_buffer() + bytes(31) + b"\7"
    for letter in (LETTER, stamped):
        assert Letter.from_buffer(letter.to_buffer()) == letter
    assert (Place.sizes(), Letter.sizes(), CheckpointHeader.sizes()) == ([34], [], [316, 348])


def test_the_binary_form_has_an_order_of_its_own_where_the_class_says_so() -> None:
    here, there = ONE + b"\0\3", ONE + b"\0\4"
    assert LETTER.to_buffer() == there + (5).to_bytes(8, "big") + here + b"\1" + ONE + b"\0\0\0\1" + here + b"\0\6"


def test_a_record_of_scalars_is_hashed_field_by_field() -> None:
    assert HERE.to_fields() == ONE + bytes(31) + b"\3"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"to": {"streetName": ONE_TEXT, "house": 1000}}, "letter.to.house: 1000 is above 999"),
        ({"sender": {}}, "letter.sender.streetName: missing"),
        ({"sender": 3}, "letter.sender: expected an object, got a number"),
        ({"others": [{}]}, r"letter.others\[0\].streetName: missing"),
        ({"hashes": [ONE_TEXT] * 3}, "letter.hashes: has 3 elements, at most 2 allowed"),
        ({"stamp": 1}, "letter.stamp: expected a hex string, got a number"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(change: dict[str, object], message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{message}$"):
        Letter.from_json(JSON | change, "letter")


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (bytes(33), "place: 33 bytes, expected 34"),
        (b"\xff" * 34, "place: the field at offset 0 is not below the field modulus"),
        (ONE + b"\xff\xff", "place: house 65535 is above 999"),
    ],
)
def test_what_is_wrong_in_a_buffer_is_named(buffer: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{message}$"):
        Place.from_buffer(buffer)


def test_types_for_schemas_follow_from_the_table() -> None:
    assert Letter.type_text() == (
        "{to: Place, sender: Place, price: bigint, weightG: Fr, hashes: Fr[], others: Place[], stamp?: Fr}"
    )
    assert RECORDS["BlockHeader"] == BlockHeader.type_text()
    assert list(components()["L2Block"]["properties"]) == [row.json for row in L2Block.MEMBERS]


def test_words_about_members_stand_beside_them_in_the_page_and_in_the_client() -> None:
    about = "Sum of the fees of its transactions."
    assert DOCS["BlockHeader"]["totalFees"] == about
    assert f"  totalFees: Fr,  # {about}\n" in (PROJECT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert f"    #: {about}\n    totalFees: Fr\n" in render_client()["records.py"]
