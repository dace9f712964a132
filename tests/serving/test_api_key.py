"""The admin port's key: where it comes from, how it is kept, and who is admitted with it."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fastnode.errors import DataDirectoryError, SettingError
from fastnode.serving.api_key import HASH_FILE, AdminKey, ApiKeyGuard, choose_admin_key, introduce

KEY = "0f" * 32
DIGEST = hashlib.sha256(KEY.encode()).digest()


def choose(
    directory: Path | None, *, disabled: bool = False, digest_text: str | None = None, reset: bool = False
) -> AdminKey:
    return choose_admin_key(disabled=disabled, digest_text=digest_text, reset=reset, data_directory=directory)


def first_start(directory: Path, *, reset: bool = False) -> str:
    key = choose(directory, reset=reset)
    introduce(key)
    assert key.new_key is not None
    return key.new_key


# ---- where it comes from --------------------------------------------------------------------------


def test_a_key_is_64_hex_digits_and_another_one_each_time(tmp_path: Path) -> None:
    keys = {choose(tmp_path).new_key for _ in range(100)}
    assert len(keys) == 100
    assert all(key is not None and re.fullmatch("[0-9a-f]{64}", key) for key in keys)


def test_only_the_hash_of_the_keys_text_is_kept_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    key = first_start(tmp_path)
    file = tmp_path / HASH_FILE
    assert file == tmp_path / "admin" / "api_key_hash"
    assert file.read_bytes() == hashlib.sha256(key.encode()).hexdigest().encode()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["api_key_hash"]


def test_the_next_start_knows_the_key_and_does_not_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = first_start(tmp_path)
    capsys.readouterr()
    again = choose(tmp_path)
    introduce(again)
    assert again == AdminKey(hashlib.sha256(key.encode()).digest())
    assert capsys.readouterr().out == ""


def test_a_reset_makes_a_new_key_that_replaces_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "admin").mkdir()
    (tmp_path / HASH_FILE).write_text("0" * 64)
    (tmp_path / HASH_FILE).chmod(0o644)
    key = first_start(tmp_path, reset=True)
    assert choose(tmp_path).digest == hashlib.sha256(key.encode()).digest()
    assert (tmp_path / HASH_FILE).stat().st_mode & 0o777 == 0o600


def test_a_start_that_does_not_get_as_far_as_showing_the_key_keeps_none(tmp_path: Path) -> None:
    choose(tmp_path)
    assert not (tmp_path / HASH_FILE).exists()


@pytest.mark.parametrize("text", [f"{DIGEST.hex()}\n", f"  {DIGEST.hex()}  ", DIGEST.hex().upper()])
def test_a_hash_file_that_was_edited_by_hand_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "admin").mkdir()
    (tmp_path / HASH_FILE).write_text(text)
    assert choose(tmp_path) == AdminKey(DIGEST)


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "g" * 64, "\xff" * 64])
def test_a_damaged_hash_file_brings_a_warning_and_a_new_key(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "admin").mkdir()
    (tmp_path / HASH_FILE).write_text(text, encoding="latin-1")
    with caplog.at_level(logging.WARNING):
        assert choose(tmp_path).new_key is not None
    assert "damaged" in caplog.text


def test_a_hash_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / HASH_FILE).mkdir(parents=True)
    with pytest.raises(DataDirectoryError, match="api_key_hash cannot be used: Is a directory"):
        choose(tmp_path)


def test_a_hash_that_cannot_be_kept_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "admin").touch()
    with pytest.raises(DataDirectoryError, match="api_key_hash cannot be used: "):
        choose(tmp_path)
    with pytest.raises(DataDirectoryError, match="api_key_hash cannot be used: "):
        introduce(AdminKey(DIGEST, KEY, tmp_path / HASH_FILE))


def test_without_a_data_directory_there_is_a_new_key_and_two_warnings(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        key = choose(None)
    assert key.new_key is not None
    assert key.file is None
    assert len(caplog.records) == 2


def test_a_hash_of_ones_own_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    assert choose(tmp_path, digest_text=DIGEST.hex(), reset=True) == AdminKey(DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_a_hash_in_upper_case_is_the_same_hash(tmp_path: Path) -> None:
    assert choose(tmp_path, digest_text=DIGEST.hex().upper()) == AdminKey(DIGEST)


@pytest.mark.parametrize("text", [KEY[:63], KEY + "0", "g" * 64, f"{KEY[:63]}\n"])
def test_a_hash_that_is_none_stops_the_start_and_is_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingError) as caught:
        choose(tmp_path, digest_text=text)
    assert str(caught.value) == 'Invalid admin API key hash: expected 64-char hex string, got "…"'


def test_a_disabled_key_asks_for_nothing_and_writes_no_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = choose(tmp_path, disabled=True, digest_text="nonsense", reset=True)
    assert ApiKeyGuard.of(key) is None
    assert list(tmp_path.iterdir()) == []
    assert caplog.messages == ["No admin API key set — admin endpoint is unauthenticated"]


# ---- the banner -----------------------------------------------------------------------------------


def test_a_new_key_is_shown_with_how_it_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    introduce(AdminKey(DIGEST, KEY, tmp_path / HASH_FILE))
    assert capsys.readouterr().out == (
        f"\n{'=' * 70}\n"
        "  ADMIN API KEY (save this — it will NOT be shown again)\n\n"
        f"  {KEY}\n\n"
        f"  Use via header:  x-api-key: {KEY}\n"
        f"  Or via header:   Authorization: Bearer {KEY}\n\n"
        "  The key hash has been persisted — on next restart, the same key will be used.\n\n"
        "  To disable admin auth: --disable-admin-api-key or SVC_DISABLE_ADMIN_API_KEY=true\n"
        f"{'=' * 70}\n\n"
    )


def test_a_key_that_will_be_lost_is_not_called_persisted(capsys: pytest.CaptureFixture[str]) -> None:
    introduce(AdminKey(DIGEST, KEY))
    assert "persisted" not in capsys.readouterr().out


def test_a_key_does_not_show_in_a_representation() -> None:
    assert KEY not in repr(AdminKey(DIGEST, KEY))


# ---- who is admitted ------------------------------------------------------------------------------

GUARD = ApiKeyGuard(DIGEST)
GOOD = KEY.encode()
BAD = b"1" + GOOD[1:]


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, False),
        ({b"x-api-key": GOOD}, True),
        ({b"x-api-key": b" %b " % GOOD}, True),
        ({b"x-api-key": BAD}, False),
        ({b"x-api-key": GOOD[:-1]}, False),
        ({b"x-api-key": GOOD + b"0"}, False),
        ({b"x-api-key": GOOD.upper()}, False),
        ({b"x-api-key": b"Bearer " + GOOD}, False),
        ({b"x-api-key": b"\xff\xfe"}, False),
        ({b"x-api-key": DIGEST.hex().encode()}, False),
        ({b"authorization": b"Bearer " + GOOD}, True),
        ({b"authorization": b"bEaReR    " + GOOD}, True),
        ({b"authorization": GOOD}, True),
        ({b"authorization": b"Bearer" + GOOD}, False),
        ({b"authorization": b"Basic " + GOOD}, False),
        ({b"authorization": b"Bearer " + BAD}, False),
        ({b"authorization": b"Bearer"}, False),
        ({b"x-api-key": GOOD, b"authorization": b"Bearer " + BAD}, True),
        ({b"x-api-key": BAD, b"authorization": b"Bearer " + GOOD}, False),
        ({b"x-api-key": b"", b"authorization": b"Bearer " + GOOD}, True),
        ({b"x-api-key": b"%b, %b" % (GOOD, GOOD)}, False),  # the header twice
    ],
)
def test_the_key_is_looked_for_in_x_api_key_and_then_in_authorization(
    headers: dict[bytes, bytes], admitted: bool
) -> None:
    assert GUARD.admits(b"POST", b"/", headers) is admitted


@pytest.mark.parametrize(
    ("method", "target", "admitted"),
    [
        (b"GET", b"/status", True),
        (b"GET", b"/status?probe=1", True),
        (b"GET", b"/livez", True),
        (b"GET", b"/readyz", True),
        (b"GET", b"/status/", False),
        (b"GET", b"//status", False),
        (b"GET", b"/STATUS", False),
        (b"GET", b"http://node/status", False),
        (b"GET", b"/", False),
        (b"HEAD", b"/status", False),
        (b"POST", b"/status", False),
        (b"OPTIONS", b"/status", False),
    ],
)
def test_only_get_of_a_probe_is_free(method: bytes, target: bytes, admitted: bool) -> None:
    assert GUARD.admits(method, target, {}) is admitted
    assert GUARD.admits(method, target, {b"x-api-key": GOOD})


# ---- time -----------------------------------------------------------------------------------------


def test_what_is_compared_are_whole_hashes_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for headers in ({}, {b"x-api-key": GOOD[:5]}, {b"x-api-key": GOOD}, {b"authorization": BAD}):
        GUARD.admits(b"POST", b"/", headers)
    assert [(len(left), right) for left, right in compared] == [(32, DIGEST)] * 4


class LeakyGuard(ApiKeyGuard):
    """A faulty comparison: stops at the first wrong character."""

    def admits(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bool:
        super().admits(method, target, headers)  # the same work as well
        return all(left == right for left, right in zip(headers[b"x-api-key"], GOOD, strict=True))


ROUNDS = 7
SAMPLES = 300


def time_told(guard: ApiKeyGuard) -> float:
    """Extra time in ns of a key that is wrong in its last character over one that is wrong in its first.

    Medians of samples taken in turn, so that what else the machine does meets both; of several rounds the one that
    tells least, because a real difference is there in every round and noise is not.
    """
    early, late = {b"x-api-key": BAD}, {b"x-api-key": GOOD[:-1] + b"0"}
    clock: Callable[[], int] = time.perf_counter_ns
    differences = []
    for _ in range(ROUNDS):
        times: tuple[list[int], list[int]] = ([], [])
        for _ in range(SAMPLES):
            for headers, samples in ((early, times[0]), (late, times[1])):
                begun = clock()
                assert not guard.admits(b"POST", b"/", headers)
                samples.append(clock() - begun)
        differences.append(statistics.median(times[1]) - statistics.median(times[0]))
    return min(differences, key=abs)


def test_time_does_not_tell_how_much_of_a_key_was_right() -> None:
    leak = time_told(LeakyGuard(DIGEST))
    assert leak > 500, "the measurement would not see a leak"
    assert abs(time_told(GUARD)) < leak / 5
