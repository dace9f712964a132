"""Transactions in flight on disk: they come back as they were, and what is damaged stops nothing."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest
from coincurve import PrivateKey

from fastnode.publishing.envelope import BlobBundle, Transaction
from fastnode.publishing.kept import InFlight, KeptTransactions
from fastnode.publishing.requests import Success

SENDER = b"\x11" * 20


def in_flight(nonce: int = 7) -> InFlight:
    bundle = BlobBundle([b"\0" * 31 + b"\5", b"\0" * 32 + b"\0" * 31 + b"\6"])
    key = PrivateKey(b"\7" * 32)
    attempts = [
        Transaction(
            chain_id=31337,
            nonce=nonce,
            tip_max=price,
            fee_max=10**20,
            gas=300_000,
            to=b"\2" * 20,
            data=b"call",
            blob_fee_max=price,
            versioned_hashes=bundle.versioned_hashes,
        ).sign(lambda digest: key.sign_recoverable(digest, hasher=None))
        for price in (1, 2)
    ]
    return InFlight(
        what="checkpoint 1",
        sender=SENDER,
        nonce=nonce,
        success=Success(b"\3" * 20, ("0x12", None)),
        give_up_at=1_795_000_000,
        bundle=bundle,
        attempts=attempts,
        first_sent_at=5,
        sent_at=6,
        speed_ups=1,
    )


def test_a_transaction_comes_back_with_its_blobs(tmp_path: Path) -> None:
    kept, item = KeptTransactions(tmp_path / "new"), in_flight()
    kept.put(item)
    (again,) = kept.load(SENDER)
    assert again.bundle is not None
    assert item.bundle is not None
    assert again.bundle.blobs == item.bundle.blobs
    assert again.bundle.commitments == item.bundle.commitments
    assert again.attempts == item.attempts
    assert again.price == item.price
    assert again.success == item.success
    assert (again.what, again.nonce, again.give_up_at, again.speed_ups) == ("checkpoint 1", 7, 1_795_000_000, 1)
    assert again.newest.raw(again.bundle) == item.newest.raw(item.bundle)


def test_one_that_is_decided_leaves_nothing(tmp_path: Path) -> None:
    kept, item = KeptTransactions(tmp_path), in_flight()
    kept.put(item)
    kept.remove(item)
    assert list(tmp_path.iterdir()) == []
    kept.remove(item)


def test_accounts_do_not_see_each_other_and_come_in_the_order_of_their_nonces(tmp_path: Path) -> None:
    kept = KeptTransactions(tmp_path)
    for nonce in (9, 7, 8):
        kept.put(in_flight(nonce))
    assert [item.nonce for item in kept.load(SENDER)] == [7, 8, 9]
    assert kept.load(b"\x12" * 20) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"version":2}', b'{"version":1,"commitments":5}'])
def test_a_file_that_cannot_be_read_is_left_alone_and_told_of(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    kept = KeptTransactions(tmp_path)
    kept.put(in_flight(7))
    kept.put(in_flight(8))
    file = tmp_path / f"0x{SENDER.hex()}-7.json"
    file.write_bytes(content)
    assert [item.nonce for item in kept.load(SENDER)] == [8]
    assert file.exists()
    assert "remove the file once L1 counts more transactions" in caplog.text
    kept.put(in_flight(7))
    assert [item.nonce for item in kept.load(SENDER)] == [7, 8], "a new one takes the place"


def files_of_one(folder: Path) -> tuple[Path, Path]:
    KeptTransactions(folder).put(in_flight())
    return folder / f"0x{SENDER.hex()}-7.json", folder / f"0x{SENDER.hex()}-7.blobs"


@pytest.mark.parametrize("which", [0, 1])
def test_no_changed_bit_is_taken_for_another_transaction(tmp_path: Path, which: int) -> None:
    file = files_of_one(tmp_path)[which]
    written = file.read_bytes()
    choice = random.Random(7)
    for place in choice.sample(range(len(written) * 8), 400):
        changed = bytearray(written)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        assert KeptTransactions(tmp_path).load(SENDER) == [], place


@pytest.mark.parametrize("which", [0, 1])
def test_nothing_that_was_cut_off_is_taken_for_whole(tmp_path: Path, which: int) -> None:
    file = files_of_one(tmp_path)[which]
    written = file.read_bytes()
    for left in (*range(0, len(written), 97), *range(len(written) - 12, len(written))):
        file.write_bytes(written[:left])
        assert KeptTransactions(tmp_path).load(SENDER) == [], left


def test_without_its_blobs_a_transaction_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files_of_one(tmp_path)[1].unlink()
    assert KeptTransactions(tmp_path).load(SENDER) == []
    assert "No such file" in str([vars(record) for record in caplog.records])


def test_the_file_of_an_older_node_counts(tmp_path: Path) -> None:
    file, _ = files_of_one(tmp_path)
    record = orjson.loads(file.read_bytes()[:-10]) | {"version": 1}
    del record["blobsCheck"]
    file.write_bytes(orjson.dumps(record))
    (item,) = KeptTransactions(tmp_path).load(SENDER)
    assert item.attempts == in_flight().attempts
    KeptTransactions(tmp_path).put(item)
    assert orjson.loads(file.read_bytes()[:-10])["version"] == 2


def test_blobs_of_a_transaction_that_was_never_sent_are_not_those_of_the_next(tmp_path: Path) -> None:
    """Files that are left when the process is killed between the two."""
    file, blobs = files_of_one(tmp_path)
    file.unlink()
    blobs.write_bytes(b"others")
    KeptTransactions(tmp_path).put(in_flight())
    (item,) = KeptTransactions(tmp_path).load(SENDER)
    assert item.bundle is not None
    assert item.bundle.blobs == BlobBundle([b"\0" * 31 + b"\5", b"\0" * 32 + b"\0" * 31 + b"\6"]).blobs


def test_what_was_not_written_whole_is_not_there(tmp_path: Path) -> None:
    kept = KeptTransactions(tmp_path)
    kept.put(in_flight())
    (tmp_path / f"0x{SENDER.hex()}-8.json.new").write_bytes(b"{")
    assert len(kept.load(SENDER)) == 1


def test_without_a_directory_nothing_is_kept() -> None:
    kept = KeptTransactions(None)
    kept.put(in_flight())
    kept.remove(in_flight())
    assert kept.load(SENDER) == []


def test_no_key_is_on_disk(tmp_path: Path) -> None:
    KeptTransactions(tmp_path).put(in_flight())
    assert all((b"\7" * 32).hex().encode() not in file.read_bytes() for file in tmp_path.iterdir())
