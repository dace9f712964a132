"""Compressed answers from kept pieces are the answers; what is kept stays within its bound."""

from __future__ import annotations

import gzip
import subprocess
import threading
import zlib
from shutil import which

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode.http import compressed_responses
from fastnode.http.compressed_responses import CompressedResponses
from fastnode.http.content_coding import Coding

UNPACK = {"gzip": gzip.decompress, "deflate": zlib.decompress}
RESULT = orjson.dumps({"fields": [f"0x{number:064x}" for number in range(100)]})


def answer(identifier: object, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + orjson.dumps(identifier) + b',"result":' + result + b"}"


LARGE = orjson.dumps([f"0x{number * 0x9E3779B97F4A7C15 % (1 << 64):064x}" for number in range(1_000)])
#: Begins like the other one, to the byte before its end.
LONGER = LARGE[:-1] + b',"more"]'

RESULTS = st.sampled_from(
    [LARGE, LONGER, RESULT, RESULT + RESULT, b"7", b"{}", b'"' + b"x" * 300 + b'"', b'"\\"result\\":"']
)
IDENTIFIERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=5) | st.sampled_from(['"result":', "},{", None])


@given(
    calls=st.lists(st.tuples(IDENTIFIERS, RESULTS), min_size=1, max_size=6),
    is_batch=st.booleans(),
    coding=st.sampled_from(["gzip", "deflate"]),
)
def test_any_answer_is_itself_again(calls: list[tuple[object, bytes]], is_batch: bool, coding: Coding) -> None:
    answers = [answer(*each) for each in calls]
    body = b"[" + b",".join(answers) + b"]" if is_batch else answers[0]
    coder = CompressedResponses()
    for _ in range(2):  # compressed, then kept
        assert UNPACK[coding](coder.encode(body, coding)) == body


PIECES = [b'"result":', b'},{"jsonrpc":"2.0","id":', b"[", b"]", b"}", b"x" * 256, b"y" * 70_000, b""]


@given(pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=12))
def test_what_is_encoded_is_decoded_to_the_same(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    coder = CompressedResponses(10_000)
    for coding in ("gzip", "deflate"):
        assert UNPACK[coding](coder.encode(body, coding)) == body  # type: ignore[arg-type]


def test_a_result_is_compressed_once_for_all_ids_codings_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    deflated: list[bytes] = []
    deflate = compressed_responses._deflated
    monkeypatch.setattr(compressed_responses, "_deflated", lambda data: deflated.append(data) or deflate(data))
    coder = CompressedResponses()
    for number in range(50):
        coder.encode(answer(number, RESULT), "gzip" if number % 2 else "deflate")
    coder.encode(b"[" + b",".join([answer(number, RESULT) for number in range(5)]) + b"]", "gzip")
    assert deflated == [RESULT]


def test_what_is_kept_stays_within_its_bound_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    deflated: list[bytes] = []
    deflate = compressed_responses._deflated
    monkeypatch.setattr(compressed_responses, "_deflated", lambda data: deflated.append(data) or deflate(data))
    coder = CompressedResponses(20_000)
    results = [orjson.dumps([f"{number:x}{'.' * 400}"] * 3) for number in range(500)]
    for number, result in enumerate(results):
        coder.encode(answer(number, result), "gzip")
        assert coder.kept_bytes <= 20_000
        coder.encode(answer(number, results[0]), "gzip")
    assert coder.kept_bytes > 15_000
    assert coder.kept_bytes == memory_of(coder)
    assert deflated.count(results[0]) == 1, "asked for again and again, so still kept"
    coder.encode(answer(1, results[1]), "gzip")
    assert deflated.count(results[1]) == 2, "gone with time"


def test_large_results_are_found_by_comparing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    coder = CompressedResponses()
    assert coder.encode_kept(answer(1, LARGE), "gzip") is None
    coder.encode(answer(1, LARGE), "gzip")
    coder.encode(b"[" + answer(1, LONGER) + b"]", "gzip")
    monkeypatch.setattr(compressed_responses, "_deflated", None)
    monkeypatch.setattr(compressed_responses, "sha256", None)
    for result in (LARGE, LONGER):
        for body in (
            answer(7, result),
            b"[" + answer(8, result) + b"]",
            b"[" + answer(9, result) + b"," + answer(10, LARGE) + b"]",
        ):
            packed = coder.encode_kept(body, "gzip")
            assert packed is not None
            assert gzip.decompress(packed) == body
            assert zlib.decompress(coder.encode_kept(body, "deflate") or b"") == body
            assert coder.encode(body, "gzip") == packed
        assert gzip.decompress(b"".join((GZIP_HEAD, coder.blocks_of(result), LAST, trailer(result)))) == result


GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
LAST = b"\x01\x00\x00\xff\xff"


def trailer(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")


def test_of_large_results_with_one_beginning_the_newest_are_kept() -> None:
    coder = CompressedResponses(8 << 20)
    results = [LARGE[:-1] + b",%d]" % number for number in range(7)]
    for result in results:
        coder.encode(answer(1, result), "gzip")
    kept = [coder.encode_kept(answer(1, result), "gzip") is not None for result in results]
    assert kept == [False] * 3 + [True] * 4
    assert coder.kept_bytes == memory_of(coder)


def memory_of(coder: CompressedResponses) -> int:
    return sum(map(compressed_responses._memory_of, coder._kept.values()))


@given(first=st.binary(max_size=300), second=st.binary(max_size=300))
def test_the_crc_of_two_parts_follows_from_those_of_each(first: bytes, second: bytes) -> None:
    joint = compressed_responses.joint_crc(zlib.crc32(first), zlib.crc32(second), len(second))
    assert joint == zlib.crc32(first + second)


def test_the_crc_of_long_parts_follows_too() -> None:
    for length in (1 << 16, 1_000_003):
        second = bytes(range(256)) * (length // 256) + b"end"
        joint = compressed_responses.joint_crc(zlib.crc32(b"first"), zlib.crc32(second), len(second))
        assert joint == zlib.crc32(b"first" + second)


def test_one_large_result_does_not_push_out_all_others() -> None:
    coder = CompressedResponses(20_000)
    coder.encode(answer(1, RESULT), "gzip")
    large = orjson.dumps([digits.hex() for digits in (zlib.crc32(b"%d" % n).to_bytes(8, "big") for n in range(3000))])
    assert gzip.decompress(coder.encode(answer(1, large), "gzip")) == answer(1, large)
    assert len(coder._kept) == 1


def test_threads_may_share_it() -> None:
    coder = CompressedResponses(30_000)
    failures: list[int] = []

    def encode(first: int) -> None:
        for number in range(first, first + 300):
            body = answer(number, orjson.dumps([number % 40] * 300))
            if gzip.decompress(coder.encode(body, "gzip")) != body:
                failures.append(number)

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert coder.kept_bytes == memory_of(coder)


@pytest.mark.skipif(which("gzip") is None, reason="no gzip program")
def test_another_program_reads_it_and_finds_nothing_behind() -> None:
    coder = CompressedResponses()
    body = answer(1, RESULT)
    for _ in range(2):
        packed = coder.encode(body, "gzip")
        assert subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout == body
        assert len(packed) < len(body) / 3
