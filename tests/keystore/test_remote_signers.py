"""Remote signers are asked whether they hold what the keystore says that they hold."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.keystore.signers import Signer, remote_signer
from tests.keystore.test_keystore import KEY_0, KEY_1, store, validator
from tests.keystore.test_validators import Keys

from fastnode.errors import KeystoreError, Refused
from fastnode.keystore.private_keys import RemoteSigner
from fastnode.keystore.remote_signers import probe_signers

REMOTE, OTHER = "0x" + "ab" * 20, "0x" + "5e" * 20
SOON = (0.01, 0.01)

Start = Callable[..., Signer]


@pytest.fixture
def start_signer() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda *accounts: stack.enter_context(remote_signer(*accounts))


def probe(*signers: RemoteSigner, pauses_s: tuple[float, ...] = ()) -> None:
    probe_signers(signers, threading.Event(), pauses_s=pauses_s)


def test_without_remote_signers_no_request_is_sent() -> None:
    probe()


def test_each_signer_is_asked_once_for_all_of_its_addresses(start_signer: Start) -> None:
    first, second = start_signer(REMOTE.upper().replace("0X", "0x"), OTHER), start_signer(OTHER)
    probe(RemoteSigner(REMOTE, first.url), RemoteSigner(OTHER, first.url), RemoteSigner(OTHER, second.url))
    assert first.asked == second.asked == ["eth_accounts"]


def test_an_address_that_a_signer_lacks_is_named(start_signer: Start) -> None:
    signer = start_signer(OTHER)
    with pytest.raises(
        KeystoreError, match=rf"^The following addresses are not available in the web3signer: {REMOTE}$"
    ):
        probe(RemoteSigner(REMOTE, signer.url), RemoteSigner(OTHER, signer.url))


def test_a_signer_that_is_starting_is_asked_again(start_signer: Start) -> None:
    signer = start_signer(REMOTE)
    signer.failures = 2
    probe(RemoteSigner(REMOTE, signer.url), pauses_s=SOON)
    assert len(signer.asked) == 3
    signer.failures = 3
    with pytest.raises(KeystoreError, match=r"^Web3Signer at http://127.* does not answer: HTTP status 503"):
        probe(RemoteSigner(REMOTE, signer.url), pauses_s=SOON)


def test_a_signer_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(KeystoreError) as failure:
        probe(RemoteSigner(REMOTE, "http://user:s3cret@127.0.0.1:1/path?key=s3cret"))
    assert str(failure.value) == (
        "Web3Signer at http://127.0.0.1:1/path does not answer: cannot connect: Connection refused"
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"result":5}', b'{"result":[5]}', b'{"error":{}}'])
def test_an_answer_that_is_none_is_an_error(start_signer: Start, body: bytes) -> None:
    signer = start_signer(REMOTE)
    signer.body = body
    with pytest.raises(KeystoreError, match=r"^Invalid response from Web3Signer at .*: expected array of accounts$"):
        probe(RemoteSigner(REMOTE, signer.url))


def test_a_stop_ends_the_waiting() -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(KeystoreError):
        probe_signers([RemoteSigner(REMOTE, "http://127.0.0.1:1")], stop, pauses_s=(3600.0,))


# ---- in a keystore ------------------------------------------------------------------------------------------


def test_a_reload_is_refused_as_a_whole_while_a_remote_signer_is_away(tmp_path: Path, start_signer: Start) -> None:
    signer = start_signer(REMOTE)
    document = store(validator(KEY_0), remoteSigner=signer.url)
    keys = Keys(tmp_path / "keystore.json", document)
    before = keys.addresses
    attested_elsewhere = store(validator(REMOTE), validator(KEY_1), remoteSigner=signer.url)
    signer.accounts = []
    with pytest.raises(Refused, match=rf"^Cannot reload keystore: The following addresses .*: {REMOTE}$"):
        keys.reload(attested_elsewhere)
    assert keys.addresses == before
    signer.accounts = [REMOTE]
    keys.reload(attested_elsewhere)
    assert REMOTE in keys.addresses
    keys.validators.close()


def test_at_the_start_a_remote_signer_that_is_away_is_worth_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fastnode.admin"):
        keys = Keys(tmp_path / "keystore.json", store(validator(REMOTE), remoteSigner="http://127.0.0.1:1"))
        assert keys.validators._probing is not None
        keys.validators._probing.join(30)
    assert keys.addresses == [REMOTE]
    assert caplog.messages == ["a remote signer cannot be used"]
    keys.validators.close()
    keys.validators.close()
