"""The file beside the chain of a local network: as it was written, or refused with the way out."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from fastnode.errors import DataDirectoryError
from fastnode.files import replace_checked_file
from fastnode.local_network.kept_state import FILE_NAME, KeptState, OpenMessage, StateFile

STATE = KeptState(
    interval_s=2.5,
    coinbase=b"\1" * 20,
    fixed_fee=7,
    eth_per_fee_asset=10_000_000,
    messages=[OpenMessage(*[b"\2" * 32] * 4)],
)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    assert StateFile(tmp_path).read() == KeptState()
    StateFile(tmp_path).write(STATE)
    assert StateFile(tmp_path).read() == STATE


def test_no_changed_bit_and_no_cut_is_taken_for_another_state(tmp_path: Path) -> None:
    StateFile(tmp_path).write(STATE)
    path = tmp_path / FILE_NAME
    written = path.read_bytes()
    damages = [written[:left] for left in range(len(written))]
    for place in random.Random(7).sample(range(len(written) * 8), 600):
        changed = bytearray(written)
        changed[place // 8] ^= 1 << place % 8
        damages.append(bytes(changed))
    for damage in damages:
        path.write_bytes(damage)
        with pytest.raises(DataDirectoryError, match=r"cannot be used .*; put it back from a backup"):
            StateFile(tmp_path).read()


def test_the_file_of_an_older_node_counts(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    older = {name: value for name, value in STATE.to_json().items() if name != "ethPerFeeAsset"}
    path.write_bytes(orjson.dumps(older | {"version": 1}))
    file = StateFile(tmp_path)
    assert file.read() == STATE
    file.write(STATE)
    assert not path.read_bytes().endswith(b"}"), "it is a checked one now"


def test_the_file_of_a_newer_node_is_said_to_be_one(tmp_path: Path) -> None:
    replace_checked_file(tmp_path / FILE_NAME, orjson.dumps(STATE.to_json() | {"version": 3}))
    with pytest.raises(DataDirectoryError, match="it is of version 3, this node reads up to 2"):
        StateFile(tmp_path).read()


@pytest.mark.parametrize(
    "time", [{"offset": 1 << 40}, {"offset": None}, {"nextTimestamp": "7"}, {"nextTimestamp": -1}, {"interval": True}]
)
def test_a_time_that_no_clock_can_have_is_refused_with_the_file_and_the_remedy(tmp_path: Path, time: dict) -> None:
    record = STATE.to_json()
    replace_checked_file(tmp_path / FILE_NAME, orjson.dumps(record | {"time": record["time"] | time}))
    with pytest.raises(DataDirectoryError, match=rf"{FILE_NAME} cannot be used \(time\.{next(iter(time))} must be"):
        StateFile(tmp_path).read()
