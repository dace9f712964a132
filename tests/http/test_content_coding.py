"""Content codings without a server."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http.content_coding import RATIO_FREE_BYTES, RATIO_MAX, BodyTooLarge, Coding, choose_coding, inflate


@given(data=st.binary(max_size=5_000), coding=st.sampled_from(["gzip", "deflate"]))
def test_what_is_compressed_is_inflated_again(data: bytes, coding: Coding) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    assert inflate(pack(data), coding, bytes_max=5_000) == data


@given(size=st.integers(0, 300), limit=st.integers(0, 300))
def test_the_limit_is_exact(size: int, limit: int) -> None:
    packed = gzip.compress(b"x" * size)
    if size <= limit:
        assert len(inflate(packed, "gzip", bytes_max=limit)) == size
    else:
        with pytest.raises(BodyTooLarge):
            inflate(packed, "gzip", bytes_max=limit)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_bomb_costs_no_more_memory_than_the_limit(pack: type[bytes]) -> None:
    bomb = pack(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            inflate(bomb, "gzip" if pack is gzip.compress else "deflate", bytes_max=1_000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_body_inflates_to_a_hundred_times_its_size_at_most() -> None:
    packed = gzip.compress(b"x" * 200_000, mtime=0)
    limit = RATIO_MAX * len(packed)
    assert limit < RATIO_FREE_BYTES, "it is free of the ratio"
    assert len(inflate(gzip.compress(b"x" * RATIO_FREE_BYTES), "gzip", bytes_max=1 << 20)) == RATIO_FREE_BYTES
    with pytest.raises(BodyTooLarge, match="more than 100 times its size"):
        inflate(packed, "gzip", bytes_max=1 << 20)
    with pytest.raises(BodyTooLarge, match="the limit of 1000 bytes"):
        inflate(packed, "gzip", bytes_max=1_000)


@given(data=st.binary(max_size=200))
def test_damaged_data_is_a_value_error(data: bytes) -> None:
    for coding in ("gzip", "deflate"):
        try:
            inflate(data, coding, bytes_max=10_000)
        except (ValueError, BodyTooLarge):
            continue


@given(header=st.binary(max_size=60) | st.text("gzipdeflate*;q=0.19, ", max_size=40).map(str.encode))
def test_any_accept_encoding_is_read(header: bytes) -> None:
    assert choose_coding(header) in ("gzip", "deflate", None)
