"""Answers in a content coding are the answers; what was compressed before is not compressed again."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http.compressed_responses import KEPT_BYTES_MIN, CompressedResponses
from fastnode.http.content_coding import Coding, choose_coding
from fastnode.kernels import packed


def _unzstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").ZstdDecompressor().decompress(data))


UNPACK: dict[Coding, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress, "deflate": zlib.decompress, "zstd": _unzstd,
}  # fmt: skip
RESULT = orjson.dumps({"fields": [f"0x{number:064x}" for number in range(100)]})
LARGE = orjson.dumps([f"0x{number * 0x9E3779B97F4A7C15 % (1 << 64):064x}" for number in range(1_000)])


@given(
    pieces=st.lists(st.sampled_from([LARGE, RESULT, b"7", b"{}", b"", b'"' + b"x" * 300 + b'"']), max_size=9),
    coding=st.sampled_from(["gzip", "deflate", "zstd"]),
)
def test_any_answer_is_itself_again(pieces: list[bytes], coding: Coding) -> None:
    assert UNPACK[coding](CompressedResponses().encode(pieces, coding)) == b"".join(pieces)


def test_a_large_result_is_offered_once_to_who_keeps_it() -> None:
    coder = CompressedResponses()
    kept: dict[bytes, packed.Packed] = {}
    coder.find = kept.get
    made: list[tuple[bytes, packed.Packed]] = []
    first = coder.encode([b"[", LARGE, b",", RESULT, b"]"], "gzip", made)
    assert [result for result, _ in made] == [LARGE]
    assert len(RESULT) < KEPT_BYTES_MIN <= len(LARGE)
    kept.update(made)
    made.clear()
    assert coder.encode([b"[", LARGE, b",", RESULT, b"]"], "gzip", made) == first
    assert made == []
    assert kept[LARGE].blocks in first


def test_zstd_is_for_those_who_prefer_it() -> None:
    pytest.importorskip("zstandard")
    assert choose_coding(b"zstd") == "zstd"
    assert choose_coding(b"gzip;q=0.5, zstd") == "zstd"
    assert choose_coding(b"deflate, zstd") == "zstd"
    assert choose_coding(b"gzip, deflate, br, zstd") == "gzip"
    assert choose_coding(b"zstd;q=0, deflate") == "deflate"
    assert choose_coding(b"gzip;q=0, *") == "deflate"


def test_a_node_without_the_package_does_not_offer_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from fastnode.http import content_coding

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "zstandard" else find_spec(name))
    module = importlib.util.module_from_spec(content_coding.__spec__)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "without_zstandard", module)
    assert content_coding.__spec__ is not None
    assert content_coding.__spec__.loader is not None
    content_coding.__spec__.loader.exec_module(module)
    assert module.choose_coding(b"zstd") is None
    assert module.choose_coding(b"zstd, deflate") == "deflate"
