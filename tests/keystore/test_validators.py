"""Loading the keystore at the start and reloading it: what is taken over, and what is refused as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.keystore.signers import remote_signer
from tests.keystore.test_keystore import (
    ADDRESS_0,
    ADDRESS_1,
    ADDRESS_2,
    COINBASE,
    FEES,
    KEY_0,
    KEY_1,
    MNEMONIC,
    REMOTE,
    store,
    validator,
)

from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings
from fastnode.errors import KeystoreError, Refused
from fastnode.keystore.keys import NO_KEYS
from fastnode.keystore.validators import NO_KEYSTORE, NOT_ENABLED, Validators

UNKNOWN = "0x" + "77" * 32


class Keys:
    """A node's validators over a keystore file that the test rewrites."""

    def __init__(self, file: Path, document: Any, settings: Settings | None = None) -> None:
        self.file = file
        self.write(document)
        self.configuration = NodeConfiguration(settings or Settings())
        self.validators = Validators(file, self.configuration, probe_pauses_s=())

    def write(self, document: Any) -> None:
        self.file.write_text(json.dumps(document))

    def reload(self, document: Any) -> None:
        self.write(document)
        self.validators.reload()

    @property
    def addresses(self) -> list[str]:
        return self.configuration.describe()["validatorAddresses"]  # type: ignore[no-any-return]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keystore.json", store(validator(KEY_0, publisher=KEY_1)))


# ---- start ----------------------------------------------------------------------------------------


def test_the_validators_of_the_keystore_are_shown_and_not_slashed(keys: Keys) -> None:
    assert keys.addresses == [ADDRESS_0]
    assert keys.configuration.describe()["slashValidatorsNever"] == [ADDRESS_0]
    assert KEY_0[2:] not in json.dumps(keys.configuration.describe())
    assert keys.validators.of(ADDRESS_0) is not None
    assert keys.validators.of(ADDRESS_1) is None


def test_a_keystore_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match="Required"):
        Keys(tmp_path / "keystore.json", store({"attester": KEY_0}))


def test_without_validators_the_keystore_is_not_read(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keystore.json", {}, Settings(validator_disabled=True))
    assert keys.validators.keystore is NO_KEYS
    assert keys.addresses == []


# ---- reload: taken over -------------------------------------------------------------------------------


def test_attesters_are_added_removed_and_replaced(keys: Keys) -> None:
    keys.reload(store(validator({"mnemonic": MNEMONIC, "addressIndex": 1, "addressCount": 2}, publisher=KEY_1)))
    assert keys.addresses == [ADDRESS_1, ADDRESS_2]
    assert keys.validators.of(ADDRESS_0) is None
    never = keys.configuration.describe()["slashValidatorsNever"]
    assert never == [ADDRESS_0, ADDRESS_1, ADDRESS_2]


def test_coinbase_fee_recipient_and_publishers_are_taken_over(tmp_path: Path) -> None:
    with remote_signer(REMOTE) as signer:
        old = store(validator(KEY_0, publisher=[KEY_1, REMOTE]), remoteSigner=signer.url)
        keys = Keys(tmp_path / "keystore.json", old)
        recipient = "0x" + "0d" * 32
        changed = validator(KEY_0, publisher=REMOTE, coinbase=COINBASE, feeRecipient=recipient)
        keys.reload(store(changed, remoteSigner=signer.url))
        keys.validators.close()
    found = keys.validators.of(ADDRESS_0)
    assert found is not None
    assert (found.coinbase, found.fee_recipient) == (COINBASE.lower(), recipient)
    assert [signer.address for signer in found.publishers] == [REMOTE.lower()]


def test_a_new_validator_without_a_publisher_publishes_with_its_attester_key(keys: Keys) -> None:
    """The service specification; release 4.1.2 refuses it."""
    keys.reload(store(validator(KEY_0, publisher=KEY_1), validator(UNKNOWN)))
    assert len(keys.addresses) == 2
    found = keys.validators.of(keys.addresses[1])
    assert found is not None
    assert [signer.address for signer in found.publishers] == [found.address]


def test_a_new_validator_may_use_the_publisher_at_the_top(tmp_path: Path) -> None:
    top = {"schemaVersion": 2, "publisher": KEY_1, "feeRecipient": FEES}
    keys = Keys(tmp_path / "keystore.json", top | {"validators": [{"attester": KEY_0}]})
    keys.reload(top | {"validators": [{"attester": KEY_0}, {"attester": UNKNOWN}]})
    assert len(keys.addresses) == 2


def test_the_provers_keys_stay_those_of_the_start(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keystore.json", store(validator(KEY_0), prover=KEY_0))
    keys.reload(store(validator(KEY_0), prover=KEY_1))
    assert keys.validators.keystore.prover is not None
    assert keys.validators.keystore.prover.id == ADDRESS_0


def test_own_validators_are_slashed_where_that_is_allowed(tmp_path: Path) -> None:
    settings = Settings(slash_self_allowed=True)
    keys = Keys(tmp_path / "keystore.json", store(validator(KEY_0)), settings)
    keys.reload(store(validator(KEY_0), validator(UNKNOWN)))
    assert keys.configuration.describe()["slashValidatorsNever"] == []


# ---- reload: refused ------------------------------------------------------------------------------------


def refused(keys: Keys, document: Any) -> str:
    """The reason; everything is as it was."""
    before = keys.configuration.describe(), keys.validators.keystore
    with pytest.raises(Refused) as failure:
        keys.reload(document)
    assert (keys.configuration.describe(), keys.validators.keystore) == before
    assert not any(secret[2:] in failure.value.message for secret in (KEY_0, KEY_1, UNKNOWN))
    return failure.value.message


def test_a_publisher_that_was_not_there_at_the_start_is_refused(keys: Keys) -> None:
    message = refused(keys, store(validator(KEY_0, publisher=KEY_1), validator(UNKNOWN, publisher=KEY_0)))
    (address,) = {word.strip(",") for word in message.split() if word.startswith("0x")} - {ADDRESS_0, ADDRESS_1}
    assert message == (
        f"Cannot reload keystore: validator {address} has publisher keys [{ADDRESS_0}] "
        f"but none match the L1 signers initialized at startup [{ADDRESS_1}]. "
        f"Publishers cannot be hot-reloaded — use an existing publisher key or restart the node."
    )


def test_one_unknown_publisher_among_known_ones_is_refused_too(keys: Keys) -> None:
    message = refused(keys, store(validator(KEY_0, publisher=[KEY_1, KEY_0])))
    assert f"[{ADDRESS_1}, {ADDRESS_0}] but [{ADDRESS_0}] match none of the L1 signers" in message


def test_a_publisher_that_a_reload_brought_is_not_one_of_the_start(keys: Keys) -> None:
    keys.reload(store(validator(KEY_0, publisher=KEY_1), validator(UNKNOWN)))
    refused(keys, store(validator(KEY_0, publisher=UNKNOWN)))


@pytest.mark.parametrize(
    "document",
    [{}, [], store({"attester": KEY_1}), store(validator(KEY_0), validator(KEY_0)), store(validator(REMOTE))],
)
def test_a_keystore_that_cannot_be_used_is_refused(keys: Keys, document: Any) -> None:
    refused(keys, document)


def test_a_keystore_that_has_gone_is_refused(keys: Keys) -> None:
    keys.file.unlink()
    with pytest.raises(Refused, match="File or directory not found"):
        keys.validators.reload()
    assert keys.addresses == [ADDRESS_0]


def test_without_a_keystore_there_is_nothing_to_reload() -> None:
    with pytest.raises(Refused) as failure:
        Validators(None, NodeConfiguration(Settings())).reload()
    assert (
        failure.value.message
        == NO_KEYSTORE
        == (
            "Cannot reload keystore: node is not using a file-based keystore. "
            "Set KEY_STORE_DIRECTORY to use file-based keystores."
        )
    )


def test_without_validators_there_is_nothing_to_reload(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keystore.json", store(validator(KEY_0)), Settings(validator_disabled=True))
    with pytest.raises(Refused) as failure:
        keys.validators.reload()
    assert failure.value.message == NOT_ENABLED == "Cannot reload keystore: validator is not enabled."
