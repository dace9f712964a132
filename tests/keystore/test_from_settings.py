"""Keys that settings name: who publishes, who gets the rewards, and that no error repeats a key."""

from __future__ import annotations

import pytest

from fastnode.config.settings import Settings
from fastnode.errors import KeystoreError
from fastnode.keystore.from_settings import keystore_of_settings, names_keys
from fastnode.keystore.private_keys import RemoteSigner, address_of

KEYS = tuple("0x" + bytes([place] * 32).hex() for place in (1, 2, 3))
ADDRESSES = tuple(address_of(bytes.fromhex(key[2:])) for key in KEYS)


def test_without_any_there_is_no_key() -> None:
    assert not names_keys(Settings())
    keystore = keystore_of_settings(Settings())
    assert keystore.addresses == ()
    assert keystore.prover is None


def test_the_first_validator_pays_and_gets_the_rewards_of_all() -> None:
    settings = Settings(validator_private_keys=KEYS)
    assert names_keys(settings)
    keystore = keystore_of_settings(settings)
    assert keystore.addresses == ADDRESSES
    for validator in keystore.validators:
        assert [signer.address for signer in validator.publishers] == [ADDRESSES[0]]
        assert validator.coinbase == ADDRESSES[0]
        assert validator.fee_recipient == "0x" + "00" * 32


def test_publishers_coinbase_and_fee_recipient_may_be_named() -> None:
    settings = Settings(
        validator_private_keys=KEYS[:1],
        seq_publisher_private_keys=KEYS[1:],
        coinbase="0x" + "77" * 20,
        fee_recipient="0x" + "08" * 32,
    )
    (validator,) = keystore_of_settings(settings).validators
    assert [signer.address for signer in validator.publishers] == list(ADDRESSES[1:])
    assert not validator.publishes_itself
    assert (validator.coinbase, validator.fee_recipient) == ("0x" + "77" * 20, "0x" + "08" * 32)


def test_a_remote_signer_may_have_them() -> None:
    settings = Settings(
        web3_signer_url="http://signer:9000",
        validator_addresses=ADDRESSES[:2],
        seq_publisher_addresses=ADDRESSES[2:],
        prover_publisher_addresses=ADDRESSES[:1],
    )
    keystore = keystore_of_settings(settings)
    assert [validator.attester for validator in keystore.validators] == [
        RemoteSigner(address, "http://signer:9000") for address in ADDRESSES[:2]
    ]
    assert keystore.validators[0].publishers == (RemoteSigner(ADDRESSES[2], "http://signer:9000"),)
    assert keystore.prover is not None
    assert keystore.prover.id == ADDRESSES[0]


def test_a_prover_s_keys_and_its_id() -> None:
    keystore = keystore_of_settings(Settings(prover_publisher_private_keys=KEYS[:1], prover_id="0x" + "99" * 20))
    assert keystore.prover is not None
    assert keystore.prover.id == "0x" + "99" * 20
    assert [signer.address for signer in keystore.prover.publishers] == [ADDRESSES[0]]


@pytest.mark.parametrize(
    "text", ["", "0x", "0x12", KEYS[0] + "0", "0x" + "zz" * 32, "0x" + "00" * 32, "0x" + "ff" * 32]
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(KeystoreError, match="VALIDATOR_PRIVATE_KEYS: entry 2 is no private key") as caught:
        keystore_of_settings(Settings(validator_private_keys=(KEYS[0], text)))
    assert len(text) < 4 or text not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_key_twice_is_refused() -> None:
    with pytest.raises(KeystoreError, match="a key is there twice"):
        keystore_of_settings(Settings(validator_private_keys=(KEYS[0], KEYS[0])))


def test_the_settings_do_not_show_them() -> None:
    from fastnode.config.table import rows

    shown = {row.name: row.secret for row in rows(Settings)}
    for name in (
        "validator-private-keys",
        "seq-publisher-private-keys",
        "prover-publisher-private-keys",
        "web3-signer-url",
    ):
        assert shown[name], name
