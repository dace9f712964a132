"""Layouts of transactions with other counts than the usual ones, against data that is written value by value."""

from __future__ import annotations

import pickle
import random
from importlib import resources
from typing import Any

import orjson
import pytest

from fastnode.errors import DecodeError
from fastnode.kernels import poseidon2
from fastnode.protocol.header import HEADER
from fastnode.protocol.releases import FOUR, Release
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import SEPARATOR_PRIVATE_TX_HASH, SEPARATOR_PUBLIC_TX_HASH, TxData
from fastnode.protocol.tx_layout import USUAL, TxLayout, layout_of

USUAL_COUNTS = {
    "noteHashes": 64, "nullifiers": 64, "messages": 8, "privateLogs": 64, "privateLogFields": 16, "calls": 32,
}  # fmt: skip


class Written:
    """One transaction: its bytes, the values that its hash runs over, and the members that must be found in it."""

    def __init__(self, source: random.Random, counts: dict[str, int], *, public: bool) -> None:
        self._source = source
        self.note_hashes: list[bytes] = []
        self.nullifiers: list[bytes] = []
        self.private_logs: list[tuple[bytes, int]] = []
        self.calls: list[bytes] = []
        constants = self._values((*HEADER.widths, 32, 32, 4, 4, 4, 4, 16, 16, 16, 16, 32, 32))
        tail = self._values((4, 4, 32, 8))
        parts = [self._part(USUAL_COUNTS | counts, public=public) for _ in range(2 if public else 1)]
        teardown = [*self._values((32, 32)), b"\x01", *self._values((32,))] if public else []
        inner = [value for part in parts for value in part] + teardown
        self.data = bytes([public]) + b"".join(constants + tail + inner)
        separator = SEPARATOR_PUBLIC_TX_HASH if public else SEPARATOR_PRIVATE_TX_HASH
        fields = [value.rjust(32, b"\0") for value in constants + inner + tail]
        self.hash = poseidon2.hash_fields(separator.to_bytes(32, "big") + b"".join(fields))

    def _values(self, widths: tuple[int, ...]) -> list[bytes]:
        return [self._source.randbytes(width) if width < 32 else b"\1" + self._source.randbytes(31) for width in widths]

    def _part(self, counts: dict[str, int], *, public: bool) -> list[bytes]:
        values: list[bytes] = []
        for name, found in (("noteHashes", self.note_hashes), ("nullifiers", self.nullifiers)):
            used = self._values((32,) * self._source.randint(0, counts[name]))
            found += used
            values += used + [bytes(32)] * (counts[name] - len(used))
        values += self._values((20, 32, 32)) + [bytes(20), bytes(32), bytes(32)] * (counts["messages"] - 1)
        log = self._values((32,) * counts["privateLogFields"])
        emitted = self._source.randint(1, counts["privateLogFields"])
        self.private_logs.append((b"".join(log), emitted))
        empty = [bytes(32)] * counts["privateLogFields"] + [bytes(4)]
        values += [*log, emitted.to_bytes(4, "big")] + empty * (counts["privateLogs"] - 1)
        values += [bytes(32), bytes(4), bytes(32)]
        if public:
            count = self._source.randint(0, counts["calls"])
            for _ in range(count):
                request = [*self._values((32, 32)), bytes([self._source.randint(0, 1)]), *self._values((32,))]
                self.calls.append(b"".join(request))
                values += request
            values += [bytes(32), bytes(32), b"\0", bytes(32)] * (counts["calls"] - count)
        return values


def some_counts(source: random.Random) -> dict[str, int]:
    return {name: source.randint(1, 2 * count) for name, count in USUAL_COUNTS.items() if source.random() < 0.7}


@pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
def test_data_of_any_counts_is_read_and_hashed_as_it_is_drawn(public: bool) -> None:
    source = random.Random(17)
    for counts in ({}, *(some_counts(source) for _ in range(4))):
        written, layout = Written(source, counts, public=public), layout_of(counts)
        assert len(written.data) == layout.data_bytes(public=public)
        data = TxData.from_buffer(written.data, layout=layout)
        assert data.tx_hash == written.hash, counts
        assert (list(data.note_hashes), list(data.nullifiers)) == (written.note_hashes, written.nullifiers)
        assert list(map(tuple, data.private_logs)) == written.private_logs
        requests = data.setup_calls + data.app_calls
        shown = [sender + to + bytes([static]) + hashed for sender, to, static, hashed in requests]
        assert shown == written.calls
        assert (data.teardown_call is not None) == public


@pytest.fixture
def other() -> Release:
    """A release as 4.x is, whose private logs have 18 fields, and of which 16 calls go into a phase."""
    record: dict[str, Any] = orjson.loads(resources.files("fastnode").joinpath("data/releases/4.json").read_bytes())
    return Release.from_record(record | {"release": "4.9", "transaction": {"privateLogFields": 18, "calls": 16}})


def test_a_record_says_which_layout_a_release_has(other: Release) -> None:
    assert FOUR.tx_layout is USUAL
    assert other.tx_layout is layout_of({"calls": 16, "privateLogFields": 18})
    source = random.Random(5)
    for public in (False, True):
        data = Written(source, {"privateLogFields": 18, "calls": 16}, public=public).data
        rest = FOUR.proof_fields.to_bytes(4, "big") + bytes(32 * FOUR.proof_fields) + b"\0\0"
        tx = Tx.from_buffer(bytes(32) + data + rest, other)
        assert tx.data.buffer == data
        assert Tx.from_json(tx.to_json(), other).hash == tx.hash
        with pytest.raises(DecodeError):
            Tx.from_buffer(bytes(32) + data + rest, FOUR)


def test_a_release_that_another_process_has_sent_has_the_same_layout(other: Release) -> None:
    for release in (FOUR, other):
        assert pickle.loads(pickle.dumps(release)).tx_layout is release.tx_layout
        assert pickle.loads(pickle.dumps(release)) == release


def test_a_count_that_no_layout_has_is_refused() -> None:
    record = orjson.loads(resources.files("fastnode").joinpath("data/releases/4.json").read_bytes())
    with pytest.raises(ValueError, match="noteHash"):
        Release.from_record(record | {"transaction": {"noteHash": 3}})


def test_a_member_is_named_by_its_place_in_the_layout() -> None:
    layout = layout_of({"noteHashes": 2})
    assert isinstance(layout, TxLayout)
    place = layout.non_revertible + layout.nullifiers + 32
    assert layout.name_at(place, public=True) == "nonRevertible.nullifiers[1]"
    assert USUAL.name_at(place, public=True) == "nonRevertible.noteHashes[3]"
