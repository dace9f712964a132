"""The kernel of table checksums and its twin: what LevelDB wrote is whole, and no changed bit is."""

from __future__ import annotations

from pathlib import Path
from random import Random

import plyvel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forged_tables import block, blocks_of, with_index

from fastnode._twins import leveldb_table as twin
from fastnode.kernels import leveldb_table as kernel

both = pytest.mark.parametrize("implementation", [kernel, twin], ids=["kernel", "twin"])


def write_table(folder: Path, *, compression: str | None = None) -> bytes:
    random = Random(1)
    database = plyvel.DB(
        str(folder), create_if_missing=True, compression=compression, bloom_filter_bits=10, block_size=256
    )
    with database.write_batch() as batch:
        for _ in range(30):
            batch.put(random.randbytes(33), random.randbytes(40) + bytes(40))
    database.compact_range(start=b"\0", stop=b"\xff" * 64)
    database.close()
    (file,) = folder.glob("*.ldb")
    return file.read_bytes()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_table(tmp_path_factory.mktemp("database"))


@both
def test_the_checksum_is_that_of_the_standard(implementation) -> None:
    # RFC 3720, appendix B.4.
    for function in (implementation.crc32c, implementation.crc32c_portable):
        assert function(bytes(32)) == 0x8A9136AA
        assert function(b"\xff" * 32) == 0x62A8AB43
        assert function(bytes(range(32))) == 0x46DD794E
        assert function(b"") == 0


@given(st.binary(max_size=300))
def test_all_implementations_agree_on_a_checksum(data: bytes) -> None:
    assert kernel.crc32c(data) == kernel.crc32c_portable(data) == twin.crc32c(data)


@both
def test_what_leveldb_wrote_is_whole(implementation, table: bytes) -> None:
    assert implementation.fault_of(table) is None
    assert implementation.fault_of(bytearray(table)) is None


@both
def test_compressed_data_is_whole_too(implementation, tmp_path: Path) -> None:
    assert implementation.fault_of(write_table(tmp_path / "packed", compression="snappy")) is None


def test_every_flipped_bit_is_found_but_for_the_filling_of_the_footer(table: bytes) -> None:
    silent = set()
    for position in range(len(table)):
        for bit in range(8):
            damaged = bytearray(table)
            damaged[position] ^= 1 << bit
            if kernel.fault_of(damaged) is None:
                silent.add(position)
    # Nothing reads the bytes between the two handles and the mark at the end.
    assert all(len(table) - twin.FOOTER_BYTES < position < len(table) - 8 for position in silent)


@given(st.data())
def test_kernel_and_twin_find_the_same_fault(table: bytes, data: st.DataObject) -> None:
    damaged = bytearray(table)
    tail = st.integers(max(0, len(table) - 700), len(table) - 1)  # indexes and footer
    for position in data.draw(st.lists(st.one_of(tail, st.integers(0, len(table) - 1)), max_size=3)):
        damaged[position] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    assert kernel.fault_of(damaged[:end]) == twin.fault_of(damaged[:end])


@both
def test_a_footer_that_leads_outside_is_named(implementation, table: bytes) -> None:
    start = len(table) - twin.FOOTER_BYTES
    forged = table[:start] + (b"\xff" * 9 + b"\x01") * 4 + table[-8:]
    assert implementation.fault_of(forged) == f"a block at byte {2**64 - 1} is said to lie outside of the file"


@both
def test_an_index_of_nonsense_with_a_right_checksum_is_named(implementation, table: bytes) -> None:
    index = b"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05" + bytes(4)
    footer = bytes([0, len(index), 0, len(index)]).ljust(40, b"\0") + table[-8:]
    assert implementation.fault_of(block(index) + footer) == "the index at byte 0 makes no sense"
    assert implementation.fault_of(block(b"\1") + b"\0\1\0\1".ljust(40, b"\0") + table[-8:]) == (
        "the index at byte 0 makes no sense"
    )


@both
def test_an_empty_file_has_no_footer(implementation) -> None:
    assert implementation.fault_of(b"") == "there is no footer at byte 0"


@both
@pytest.mark.parametrize("seed", range(25))
def test_an_index_whose_blocks_do_not_lie_one_behind_the_other_is_refused(
    implementation, table: bytes, seed: int
) -> None:
    """However often, and in which order, a forged index with a right checksum leads to its blocks."""
    random = Random(seed)
    blocks = blocks_of(table)
    assert len(blocks) == 4
    ordered = sorted(random.sample(blocks, random.randint(1, len(blocks))))
    assert implementation.fault_of(with_index(table, ordered)) is None
    forged = list(ordered)
    for _ in range(random.randint(1, 3)):
        forged.insert(random.randrange(len(forged) + 1), random.choice(blocks))
    fault = implementation.fault_of(with_index(table, forged))
    if forged == sorted(set(forged)):
        assert fault is None
    else:
        assert fault is not None
        assert fault.endswith("begins before the end of the one before it")


@both
def test_a_small_table_that_leads_to_one_block_very_often_is_refused_at_the_second_time(
    implementation, table: bytes
) -> None:
    first, *_ = blocks_of(table)
    forged = with_index(table, [first] * 50_000)
    assert implementation.fault_of(forged) == (
        f"the block at byte {first[0]} begins before the end of the one before it"
    )


@both
def test_a_block_within_another_one_is_refused(implementation, table: bytes) -> None:
    outer, second, *_ = blocks_of(table)
    inner = block(b"i" * 8)
    start = outer[0] + 4
    content = bytearray(table)
    content[start : start + len(inner)] = inner
    whole = bytes(content[outer[0] : outer[0] + outer[1]])
    content[outer[0] : outer[0] + outer[1] + twin.TRAILER_BYTES] = block(whole)
    forged = with_index(bytes(content), [outer, (start, 8), second])
    assert implementation.fault_of(forged) == f"the block at byte {start} begins before the end of the one before it"
