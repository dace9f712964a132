"""The keystore: every form of an account, what stands in for what, and what is wrong with a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.keystore.test_key_files import MNEMONIC, V3_PASSWORD, V3_PBKDF2, V3_SECRET, V4_PASSWORD, V4_PBKDF2, V4_SECRET

from fastnode.errors import KeystoreError
from fastnode.keystore.keys import Keystore
from fastnode.keystore.keystore import load_keystore
from fastnode.keystore.private_keys import EthKey, RemoteSigner

FEES = "0x" + "0f" * 32
COINBASE = "0x" + "C0" * 20
URL = "https://signer.example.org:9000"
#: Accounts of the mnemonic: private key and address.
KEY_0 = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ADDRESS_0 = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
KEY_1 = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
ADDRESS_1 = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
ADDRESS_2 = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
REMOTE = "0x" + "Ab" * 20
BLS = "0x" + "11" * 32


def load(tmp_path: Path, document: Any, name: str = "keystore.json") -> Keystore:
    file = tmp_path / name
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return load_keystore(file)


def validator(attester: Any, **more: Any) -> dict[str, Any]:
    return {"attester": attester, "feeRecipient": FEES} | more


def store(*validators: Any, **more: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "validators": list(validators)} | more


# ---- accounts -------------------------------------------------------------------------------------


def test_a_private_key_is_an_account(tmp_path: Path) -> None:
    (keys,) = load(tmp_path, store(validator(KEY_0))).validators
    assert keys.attester == EthKey(bytes.fromhex(KEY_0[2:]))
    assert keys.address == ADDRESS_0
    assert keys.bls is None


@pytest.mark.parametrize(
    "document",
    [
        store(validator(REMOTE), remoteSigner=URL),
        store(validator(REMOTE), remoteSigner={"remoteSignerUrl": URL, "certPath": "a", "certPass": "b"}),
        store(validator(REMOTE, remoteSigner=URL), remoteSigner="https://another.example.org"),
        store(validator({"address": REMOTE, "remoteSignerUrl": URL, "certPath": "a"})),
        store(validator({"address": REMOTE}), remoteSigner=URL),
    ],
)
def test_an_address_is_an_account_at_the_nearest_remote_signer(tmp_path: Path, document: Any) -> None:
    (keys,) = load(tmp_path, document).validators
    assert keys.attester == RemoteSigner(REMOTE.lower(), URL)


@pytest.mark.parametrize("as_directory", [False, True])
def test_an_encrypted_file_or_a_directory_of_them_is_an_account(tmp_path: Path, as_directory: bool) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "one.json").write_text(json.dumps(V3_PBKDF2))
    account = {"path": "keys" if as_directory else "keys/one.json", "password": V3_PASSWORD}
    (found,) = load(tmp_path, store(validator(account))).validators
    assert isinstance(found.attester, EthKey)
    assert found.attester.reveal().hex() == V3_SECRET
    assert found.address == "0x008aeeda4d805471df9b2a5b0f38a0c3bcba786b"


def test_a_mnemonic_is_one_account_or_many(tmp_path: Path) -> None:
    found = load(tmp_path, store(validator({"mnemonic": MNEMONIC}))).addresses
    assert found == (ADDRESS_0,)
    found = load(tmp_path, store(validator({"mnemonic": MNEMONIC, "addressIndex": 1, "addressCount": 2}))).addresses
    assert found == (ADDRESS_1, ADDRESS_2)
    found = load(tmp_path, store(validator({"mnemonic": MNEMONIC, "accountCount": 3}))).addresses
    assert len(set(found)) == 3
    assert found[:2] == (ADDRESS_0, "0x8c8d35429f74ec245f8ef2f4fd1e551cff97d650")


def test_an_attester_may_be_several_and_have_bls_keys(tmp_path: Path) -> None:
    bls_file = tmp_path / "bls.key"
    bls_file.write_text(json.dumps(V4_PBKDF2))
    bls = {"path": str(bls_file), "password": V4_PASSWORD}
    keystore = load(tmp_path, store(validator([{"eth": KEY_0, "bls": BLS}, {"eth": KEY_1, "bls": bls}, {"eth": BLS}])))
    first, second, third = keystore.validators
    assert (first.address, second.address) == (ADDRESS_0, ADDRESS_1)
    assert first.bls is not None
    assert first.bls.reveal().hex() == BLS[2:]
    assert second.bls is not None
    assert second.bls.reveal().hex() == V4_SECRET
    assert third.bls is None


# ---- what stands in for what --------------------------------------------------------------------------


def test_without_more_the_attester_publishes_and_is_paid(tmp_path: Path) -> None:
    (keys,) = load(tmp_path, store(validator(KEY_0))).validators
    assert [signer.address for signer in keys.publishers] == [ADDRESS_0]
    assert keys.publishes_itself
    assert (keys.coinbase, keys.fee_recipient) == (ADDRESS_0, FEES)


def test_the_top_level_stands_in_for_validators_in_version_2(tmp_path: Path) -> None:
    document = {
        "schemaVersion": 2,
        "validators": [{"attester": KEY_0}, validator(KEY_1, coinbase=ADDRESS_2, publisher=[KEY_0, REMOTE])],
        "publisher": KEY_1,
        "coinbase": COINBASE,
        "feeRecipient": "0x" + "0E" * 32,
        "remoteSigner": URL,
    }
    keystore = load(tmp_path, document)
    first, second = keystore.validators
    assert [signer.address for signer in first.publishers] == [ADDRESS_1]
    assert not first.publishes_itself
    assert (first.coinbase, first.fee_recipient) == (COINBASE.lower(), "0x" + "0e" * 32)
    assert [signer.address for signer in second.publishers] == [ADDRESS_0, REMOTE.lower()]
    assert (second.coinbase, second.fee_recipient) == (ADDRESS_2, FEES)
    assert keystore.publishers == {ADDRESS_0, ADDRESS_1, REMOTE.lower()}


def test_a_prover_and_slashers_are_read(tmp_path: Path) -> None:
    keystore = load(tmp_path, {"schemaVersion": 1, "prover": KEY_0, "slasher": [KEY_1], "fundingAccount": KEY_0})
    assert keystore.validators == ()
    assert keystore.prover is not None
    assert keystore.prover.id == ADDRESS_0
    assert [signer.address for signer in keystore.slashers] == [ADDRESS_1]
    prover = {"id": COINBASE, "publisher": {"mnemonic": MNEMONIC, "addressCount": 2}}
    keystore = load(tmp_path, {"schemaVersion": 1, "prover": prover})
    assert keystore.prover is not None
    assert keystore.prover.id == COINBASE.lower()
    assert [signer.address for signer in keystore.prover.publishers] == [ADDRESS_0, ADDRESS_1]


# ---- several files --------------------------------------------------------------------------------------


def test_every_json_file_of_a_directory_is_loaded_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(store(validator(KEY_0))))
    (tmp_path / "a.json").write_text(json.dumps(store(validator(KEY_1, coinbase=COINBASE), prover=KEY_0)))
    (tmp_path / "notes.txt").write_text("not a keystore")
    keystore = load_keystore(tmp_path)
    assert keystore.addresses == (ADDRESS_1, ADDRESS_0)
    assert keystore.prover is not None


BOM = b"\xef\xbb\xbf"


def skipped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.facts["files"] for record in caplog.records if "skipped" in record.message]  # type: ignore[attr-defined]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_bytes(BOM + json.dumps(V3_PBKDF2).encode())
    account = {"path": "key.json", "password": V3_PASSWORD}
    (tmp_path / "store.json").write_bytes(BOM + json.dumps(store(validator(account))).encode())
    assert len(load_keystore(tmp_path / "store.json").validators) == 1


def test_files_that_macos_leaves_are_skipped_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.json").write_text(json.dumps(store(validator(KEY_0))))
    (tmp_path / "._a.json").write_bytes(b"\0\5\x16\7")
    (tmp_path / "b.json.bak").write_text(json.dumps(store(validator(KEY_1))))
    assert load_keystore(tmp_path).addresses == (ADDRESS_0,)
    assert skipped(caplog) == ["._a.json, b.json.bak"]


def test_a_directory_of_keys_has_the_names_of_geth_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "UTC--2024-01-01T00-00-00.000000000Z--008aeeda4d805471df9b2a5b0f38a0c3bcba786b").write_text(
        json.dumps(V3_PBKDF2)
    )
    (keys / "password.txt").write_text(V3_PASSWORD)
    found = load(tmp_path, store(validator({"path": "keys", "password": V3_PASSWORD})))
    assert found.addresses == ("0x008aeeda4d805471df9b2a5b0f38a0c3bcba786b",)
    assert skipped(caplog) == ["password.txt"]


@pytest.mark.parametrize("where", ["store", "keys"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, where: str) -> None:
    folder = tmp_path / where
    folder.mkdir()
    (folder / "lost.json").symlink_to(tmp_path / "gone.json")
    (folder / "a.json").write_text(json.dumps(store(validator(KEY_0)) if where == "store" else V3_PBKDF2))
    (tmp_path / "account.json").write_text(json.dumps(store(validator({"path": "keys", "password": V3_PASSWORD}))))
    with pytest.raises(KeystoreError, match=r"lost\.json: it is a link to .*gone\.json, which does not exist"):
        load_keystore(folder if where == "store" else tmp_path / "account.json")


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            store(validator(KEY_0)),
            store(validator({"mnemonic": MNEMONIC})),
            f"Duplicate attester address {ADDRESS_0} found across keystore files",
        ),
        (
            store(validator(KEY_0)),
            {"schemaVersion": 2, "validators": [validator(KEY_1)]},
            "Failed to load keystore from PATH: the files have different schema versions",
        ),
        (
            {"schemaVersion": 1, "prover": KEY_0},
            {"schemaVersion": 1, "prover": KEY_1},
            "Failed to load keystore from PATH: more than one file configures a prover",
        ),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path: Path, first: Any, second: Any, reason: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(first))
    (tmp_path / "b.json").write_text(json.dumps(second))
    with pytest.raises(KeystoreError) as failure:
        load_keystore(tmp_path)
    assert str(failure.value) == reason.replace("PATH", str(tmp_path))


def test_an_attester_may_be_there_once(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError) as failure:
        load(tmp_path, store(validator(KEY_0), validator([KEY_1, ADDRESS_0], remoteSigner=URL)))
    assert str(failure.value) == (
        f"Duplicate attester address found: {ADDRESS_0}. "
        f"An attester address may only appear once across all configuration blocks."
    )


def test_a_path_without_a_keystore_is_named(tmp_path: Path) -> None:
    empty, missing, pipe = tmp_path / "empty", tmp_path / "missing", tmp_path / "pipe"
    empty.mkdir()
    os.mkfifo(pipe)
    for path, reason in (
        (missing, "File or directory not found"),
        (empty, "No valid keystore files found"),
        (pipe, "Path is neither a file nor directory"),
    ):
        with pytest.raises(KeystoreError) as failure:
            load_keystore(path)
        assert str(failure.value) == f"Failed to load keystore from {path}: {reason}"


# ---- what is wrong with a document ------------------------------------------------------------------------

NOT_AN_ACCOUNT = "must be a private key, an address, a remote signer's account or a key file"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("{", "Invalid JSON format"),
        ("[]", "Schema validation failed: Expected object ()"),
        ({"validators": []}, "Schema validation failed: schemaVersion must be 1 or 2 (schemaVersion)"),
        ({"schemaVersion": 3, "validators": []}, "Schema validation failed: schemaVersion must be 1 or 2"),
        ({"schemaVersion": 1}, "Keystore must have at least validators or prover configuration"),
        (store(extra=1), 'Schema validation failed: Unrecognized key(s) in object: "extra"; known are'),
        (store(coinbase=COINBASE, fee_recipient=1), 'in object: "coinbase", "fee_recipient"; known'),  # of version 2
        (store(**{KEY_0: 1, MNEMONIC: 2}), "in object: one that may be a secret, one that may be a secret; known are"),
        (store(**{KEY_0[2:]: 1}), "in object: one that may be a secret; known are"),
        (store(5), "Expected object (validators.0)"),
        (store(validator(KEY_0, extra=1)), "known are attester, coinbase, feeRecipient"),
        (store({"attester": KEY_0}), "Schema validation failed: Required (validators.0.feeRecipient)"),
        (
            {"schemaVersion": 2, "validators": [{"attester": KEY_0}]},
            "Each validator must have a feeRecipient, or a top-level feeRecipient must be set for all validators "
            "(validators.0.feeRecipient)",
        ),
        (store({"feeRecipient": FEES}), "Required (validators.0.attester)"),
        (store(validator(KEY_0, feeRecipient="0x12")), "Invalid Aztec address (validators.0.feeRecipient)"),
        (store(validator(KEY_0, coinbase=FEES)), "Invalid Ethereum address (validators.0.coinbase)"),
        (store(validator(KEY_0[:-1])), f"{NOT_AN_ACCOUNT} (validators.0.attester)"),
        (store(validator(5)), f"{NOT_AN_ACCOUNT} (validators.0.attester)"),
        (store(validator([])), "must have an account (validators.0.attester)"),
        (store(validator([KEY_0, {}])), f"{NOT_AN_ACCOUNT} (validators.0.attester.1)"),
        (store(validator("0x" + "00" * 32)), "not a secp256k1 private key (validators.0.attester)"),
        (store(validator(KEY_0, publisher=[KEY_0, "x"])), f"{NOT_AN_ACCOUNT} (validators.0.publisher.1)"),
        (store(validator(KEY_0, publisher=[])), "must have an account (validators.0.publisher)"),
        (store(validator(REMOTE)), "an address needs a remoteSigner (validators.0.attester)"),
        (store(validator({"address": REMOTE})), "an address needs a remoteSigner (validators.0.attester)"),
        (store(remoteSigner="signer"), "Invalid url (remoteSigner)"),
        (store(remoteSigner={"certPath": "x"}), "Required (remoteSigner.remoteSignerUrl)"),
        (store(validator({"eth": KEY_0, "bls": "x"})), "must be a BLS private key or a key file"),
        (store(validator({"eth": KEY_0, "bls": "0x" + "ff" * 32})), "not a BLS12-381 private key"),
        (store(validator({"eth": KEY_0, "seed": 1})), "known are bls, eth (validators.0.attester)"),
        (store(validator({"mnemonic": "one two"})), "a mnemonic has 12, 15, 18, 21 or 24 words"),
        (store(validator({"mnemonic": MNEMONIC, "addressCount": 0})), "from 1 to 10000 keys (validators.0.attester)"),
        (store(validator({"mnemonic": MNEMONIC, "addressIndex": "0"})), "(validators.0.attester.addressIndex)"),
        (store(validator({"mnemonic": MNEMONIC, "addressIndex": 2**31 - 1})), "the index is too large"),
        (store(validator({"path": "missing.json"})), "cannot be read: No such file or directory"),
        (store(validator({"path": 5})), "Expected string (validators.0.attester.path)"),
        (store(validator({"path": "keystore.json"})), "cannot be decrypted: not a key file of version 3 or 4"),
        ({"schemaVersion": 1, "prover": {"id": COINBASE}}, "Required (prover.publisher)"),
        (store(slasher=5), f"{NOT_AN_ACCOUNT} (slasher)"),
        (store(fundingAccount="x"), f"{NOT_AN_ACCOUNT} (fundingAccount)"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, document: Any, reason: str) -> None:
    with pytest.raises(KeystoreError) as failure:
        load(tmp_path, document)
    assert str(failure.value).startswith(f"Failed to load keystore from {tmp_path / 'keystore.json'}: ")
    assert reason in str(failure.value)


SECRETS = (KEY_0[2:], KEY_1[2:], BLS[2:], MNEMONIC, "hunter2")


@pytest.mark.parametrize(
    "document",
    [
        json.dumps(store(validator(KEY_0)))[:-1],
        store(validator(KEY_0 + "0")),
        store(validator([KEY_0, {"mnemonic": MNEMONIC + " more"}])),
        store({KEY_0: KEY_1}),
        {KEY_0: KEY_1, "schemaVersion": 1, "validators": []},
        store(validator({"eth": KEY_0, "bls": BLS + "0"})),
        store(validator(KEY_0, coinbase=KEY_1, feeRecipient=BLS)),
        store(validator({"path": "keystore.json", "password": "hunter2"})),
        store(validator({"path": "keystore.json", "password": ["hunter2"]})),
        store(validator({"address": REMOTE, "remoteSignerUrl": "ftp://hunter2@x"})),
    ],
)
def test_no_error_repeats_a_key_a_mnemonic_or_a_password(tmp_path: Path, document: Any) -> None:
    with pytest.raises(KeystoreError) as failure:
        load(tmp_path, document)
    shown = str(failure.value) + repr(failure.value) + repr(failure.value.__cause__)
    assert not any(secret in shown for secret in SECRETS)


def test_a_keystore_does_not_show_its_keys(tmp_path: Path) -> None:
    keystore = load(tmp_path, store(validator({"eth": KEY_0, "bls": BLS}, publisher=KEY_1)))
    assert not any(secret in repr(keystore) for secret in SECRETS)


# ---- adversity ------------------------------------------------------------------------------------

NAMES = [
    "schemaVersion",
    "validators",
    "slasher",
    "remoteSigner",
    "prover",
    "fundingAccount",
    "publisher",
    "coinbase",
    "feeRecipient",
    "attester",
    "eth",
    "bls",
    "id",
    "address",
    "remoteSignerUrl",
    "certPath",
    "path",
    "password",
    "mnemonic",
    "addressIndex",
    "accountIndex",
    "addressCount",
    "accountCount",
]
SCALARS = st.sampled_from([None, True, -1, 0, 1, 2, 2**40, "", "x", "..", KEY_0, REMOTE, BLS, URL, MNEMONIC])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=tries(150, 3_000)
)
@given(st.fixed_dictionaries({"schemaVersion": st.sampled_from([1, 2])}, optional=dict.fromkeys(NAMES[1:], JSON)))
def test_any_document_is_a_keystore_or_refused_without_its_secrets(tmp_path: Path, document: Any) -> None:
    message = ""
    try:
        load(tmp_path, document)
    except KeystoreError as error:
        message = str(error)
    assert not any(secret in message for secret in SECRETS)
