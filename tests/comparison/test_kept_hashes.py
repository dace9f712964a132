"""Hashes that are computed once for a comparison: the same ones, told by what is hashed, and gone when it is over."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from hashlib import sha256

import pytest
from tests.comparison import kept_hashes
from tests.comparison.kept_hashes import KeptHashes
from tests.comparison.transaction_cases import binary_cases, word
from tests.comparison.transaction_outcomes import Answers

from fastnode.kernels import hash_threads, poseidon2

FIELDS = word(7) + word(8)
HASH = poseidon2.hash_fields(FIELDS)
#: Both ways of hashing.
WAYS: tuple[Callable[[bytes], bytes], ...] = (
    lambda fields: poseidon2.hash_fields(fields),
    lambda fields: hash_threads.start_hash(fields).result(),
)


@pytest.fixture
def kept() -> Iterator[KeptHashes]:
    with contextlib.closing(KeptHashes()) as hashes:
        yield hashes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("again", WAYS)
def test_a_hash_is_computed_once_and_told_by_what_is_hashed(
    kept: KeptHashes,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[bytes], bytes],
    again: Callable[[bytes], bytes],
) -> None:
    told = {sha256(FIELDS).hexdigest(): HASH.hex()}
    assert way(FIELDS) == HASH
    assert kept.taken() == told
    assert kept.taken() == {}
    monkeypatch.setattr(kept, "_hash_fields", None)
    monkeypatch.setattr(kept, "_start_hash", None)
    assert again(FIELDS) == HASH
    assert kept.taken() == told


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_hashed_is_refused_as_ever(kept: KeptHashes, way: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match="modulus"):
        way(b"\xff" * 32)
    assert kept.taken() == {}


def test_only_so_many_are_kept(kept: KeptHashes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_hashes, "KEPT_MAX", 2)
    for value in range(5):
        poseidon2.hash_fields(word(value))
    assert len(kept._kept) <= 2


def test_afterwards_the_kernels_hash_again() -> None:
    before = poseidon2.hash_fields, hash_threads.start_hash
    KeptHashes().close()
    assert (poseidon2.hash_fields, hash_threads.start_hash) == before


def test_transactions_come_to_the_same_with_hashes_that_are_kept() -> None:
    cases = list(itertools.islice(binary_cases(4), 6))
    plain = [Answers()(case) for case in cases]
    with contextlib.closing(KeptHashes()) as hashes:
        assert list(itertools.islice(binary_cases(4), 6)) == cases
        assert [Answers()(case) for case in cases] == plain
        assert {answer["hash"][2:] for answer in plain if "hash" in answer} <= set(hashes.taken().values())
