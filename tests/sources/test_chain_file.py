"""Reading a chain file: in what order, in which dress, and where exactly it is broken; writing one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastnode.archiver.source import BlockRecord, CheckpointRecord, TipsRecord
from fastnode.errors import ChainFileError, DecodeError
from fastnode.sources import chain_file
from fastnode.sources.chain_file import ChainFileSource, ChainFileWriter

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Write = Callable[[list[bytes]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Lines as a plain file."""

    def write(lines: list[bytes]) -> Path:
        path = tmp_path / "chain.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


def read_all(path: Path) -> int:
    """Decodes everything; returns the number of records behind the first two lines."""
    count = 0
    with ChainFileSource(path) as source:
        for record in source.records():
            if isinstance(record, CheckpointRecord):
                assert record.published
            elif isinstance(record, BlockRecord):
                assert record.block
            count += 1
    return count


# ---- reading -----------------------------------------------------------------------------------


def test_the_bundled_chain_is_41_checkpoints_and_the_tips(sample_path: Path) -> None:
    with ChainFileSource(sample_path) as source:
        assert source.name == str(sample_path)
        assert source.chain.node_info["nodeVersion"] == "4.1.2"
        assert len(source.genesis.contract_classes) == len(source.genesis.contract_instances)
        kinds = [type(record) for record in source.records()]
        assert kinds == [CheckpointRecord] * 41 + [TipsRecord]
        assert source.line == 44
        assert source.bytes_read == source.bytes_total


def test_a_plain_file_reads_like_a_compressed_one(sample: SampleChain, write: Write) -> None:
    assert read_all(write(sample.lines)) == 42


def test_the_last_line_needs_no_line_end(sample: SampleChain, tmp_path: Path) -> None:
    path = tmp_path / "chain.jsonl"
    path.write_bytes(b"\n".join(sample.lines))
    assert read_all(path) == 42


def test_a_file_may_end_after_the_genesis(sample: SampleChain, write: Write) -> None:
    assert read_all(write(sample.lines[:2])) == 0


def test_only_one_record_is_held_at_a_time(sample_path: Path) -> None:
    with ChainFileSource(sample_path) as source:
        records = source.records()
        next(records)
        assert source.line == 3
        assert source.bytes_read < source.bytes_total


# ---- refusing ----------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match=r"absent\.jsonl: No such file or directory"):
        ChainFileSource(tmp_path / "absent.jsonl")


def test_a_directory_is_not_a_chain_file(tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match="Is a directory"):
        ChainFileSource(tmp_path)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (1, b"", r"line 1: not JSON"),
        (1, b"[]", r"line 1: not a JSON object"),
        (1, b'{"kind":"genesis"}', r"line 1: expected a line of kind 'chain', got 'genesis'"),
        (1, b'{"kind":"chain","version":2}', r"line 1: version: 2 is not 1, the only one this fastnode reads"),
        (1, b'{"kind":"chain","version":1}', r"line 1: nodeInfo: missing"),
        (2, b'{"kind":"checkpoint"}', r"line 2: expected a line of kind 'genesis', got 'checkpoint'"),
        (2, b'{"kind":"genesis"}', r"line 2: header: missing"),
        (7, b'{"kind":"checkpoint"', r"line 7: not JSON"),
        (7, b'\xff{"kind":"checkpoint"}', r"line 7: not JSON"),
        (7, b'"checkpoint"', r"line 7: not a JSON object"),
        (7, b"{}", r"line 7: unknown kind 'None'"),
        (7, b'{"kind":7}', r"line 7: unknown kind '7'"),
        (7, b'{"kind":"chain"}', r"line 7: a line of kind 'chain' is not allowed here"),
        (7, b'{"kind":"genesis"}', r"line 7: a line of kind 'genesis' is not allowed here"),
        (7, b'{"kind":"checkpoint"}', r"line 7: published: missing"),
        (7, b'{"kind":"checkpoint","published":{"checkpoint":{"number":5}}}', r"line 7: l1ToL2Messages: missing"),
        (44, b'{"kind":"tips"}', r"line 44: tips: expected an object, got null"),
    ],
)
def test_a_garbled_line_is_named_by_its_number(
    sample: SampleChain, write: Write, line: int, text: bytes, message: str
) -> None:
    lines = list(sample.lines)
    lines[line - 1] = text
    with pytest.raises(ChainFileError, match=message) as caught:
        read_all(write(lines))
    assert caught.value.line == line


def test_nothing_may_follow_the_tips(sample: SampleChain, write: Write) -> None:
    for following in (sample.lines[-1], sample.lines[5]):
        with pytest.raises(ChainFileError, match=r"line 45: a line of kind '(tips|checkpoint)' is not allowed here"):
            read_all(write([*sample.lines, following]))


def test_a_checkpoint_may_not_follow_a_single_block(sample: SampleChain, write: Write) -> None:
    block = orjson.dumps({"kind": "block", "block": sample.block_json(1)})
    with pytest.raises(ChainFileError, match="line 4: a line of kind 'checkpoint' is not allowed here"):
        read_all(write([*sample.lines[:2], block, sample.lines[3]]))


@pytest.mark.parametrize("lines", [0, 1])
def test_a_file_that_ends_before_its_genesis_is_refused(sample: SampleChain, write: Write, lines: int) -> None:
    with pytest.raises(ChainFileError, match=f"line {lines + 1}: the file ends where a line of kind") as caught:
        read_all(write(sample.lines[:lines]))
    assert caught.value.line == lines + 1


def test_an_endless_line_is_not_read_to_its_end(
    sample: SampleChain, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_file, "LINE_BYTES_MAX", 50_000)
    with pytest.raises(ChainFileError, match="line 3: longer than 50000 bytes"):
        read_all(write(sample.lines))


def test_a_compressed_file_cut_anywhere_says_in_which_line(sample_path: Path, tmp_path: Path) -> None:
    whole = sample_path.read_bytes()
    path = tmp_path / "cut.jsonl.gz"
    for length in range(2, len(whole), 20_011):
        path.write_bytes(whole[:length])
        with pytest.raises(ChainFileError, match=r"line \d+: (the compressed data ends in the middle|not JSON)"):
            read_all(path)


def test_damaged_compressed_data_says_in_which_line(sample_path: Path, tmp_path: Path) -> None:
    whole = bytearray(sample_path.read_bytes())
    for position in (5_000, 100_000, len(whole) - 6):
        damaged = bytearray(whole)
        damaged[position : position + 4] = b"\x00\xff\x00\xff"
        path = tmp_path / "damaged.jsonl.gz"
        path.write_bytes(damaged)
        with pytest.raises(ChainFileError, match=r"line \d+: "):
            read_all(path)


def test_a_plain_file_cut_in_a_line_says_in_which(sample: SampleChain, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"\n".join(sample.lines[:9]) + b"\n" + sample.lines[9][:5000])
    with pytest.raises(ChainFileError, match="line 10: not JSON"):
        read_all(path)


def scalar_paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where all the values of a record are."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in scalar_paths(item, (*path, key))]
    if isinstance(value, list):
        return [found for index, item in enumerate(value[:3]) for found in scalar_paths(item, (*path, index))]
    return [path]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), wrong=st.sampled_from([None, True, -1, 1.5, "", "0x", "0xzz", "0x" + "ff" * 32, [], {}, "ä"]))
def test_a_wrong_value_anywhere_in_a_checkpoint_is_a_decode_error_that_names_its_path(
    sample: SampleChain, data: st.DataObject, wrong: object
) -> None:
    record = sample.checkpoint_json(12)
    path = data.draw(st.sampled_from([path for path in scalar_paths(record) if path[0] != "kind"]))
    target: object = record
    for key in path[:-1]:
        target = target[key]  # type: ignore[index]
    # An L1 hash is no field element: it may be as high as it likes.
    if path[-1] == "blockHash" or target[path[-1]] == wrong:  # type: ignore[index]
        return
    target[path[-1]] = wrong  # type: ignore[index]
    name = next(key for key in reversed(path) if isinstance(key, str))
    with pytest.raises(DecodeError, match=name):
        assert CheckpointRecord(record).published


# ---- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chain.jsonl", "chain.jsonl.gz"])
def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with ChainFileWriter(path) as writer:
        writer.write(b"chain", b'"version":1')
        writer.write(b"tips", b'"tips":null')
        assert not path.exists()
    data = path.read_bytes()
    assert data.startswith(b"\x1f\x8b") == name.endswith(".gz")
    lines = gzip.decompress(data) if name.endswith(".gz") else data
    assert lines == b'{"kind":"chain","version":1}\n{"kind":"tips","tips":null}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["chain.jsonl", "chain.jsonl.gz"])
def test_an_interrupted_writing_leaves_nothing(tmp_path: Path, name: str) -> None:
    def interrupted() -> None:
        with ChainFileWriter(tmp_path / name) as writer:
            writer.write(b"chain", b'"version":1')
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_the_same_lines_give_the_same_compressed_bytes(tmp_path: Path) -> None:
    for name in ("one.gz", "two.gz"):
        with ChainFileWriter(tmp_path / name) as writer:
            writer.write(b"chain", b'"version":1')
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChainFileError, match=r"absent/chain\.jsonl: cannot be written: No such file or directory"):
        ChainFileWriter(tmp_path / "absent" / "chain.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("name", ["chain.jsonl", "chain.jsonl.gz"])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.partial").symlink_to("/dev/full")

    def fill() -> None:
        with ChainFileWriter(tmp_path / name) as writer:
            writer.write(b"chain", b'"version":1')

    with pytest.raises(ChainFileError, match="cannot be written: No space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []
