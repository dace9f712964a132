"""Keys that settings name, for nodes without a keystore: private keys, or a remote signer and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastnode.errors import KeystoreError
from fastnode.keystore.keys import Keystore, ProverKeys, ValidatorKeys
from fastnode.keystore.private_keys import EthKey, RemoteSigner, Signer

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["keystore_of_settings", "names_keys"]

_KEY_DIGITS: Final = 64
_NO_RECIPIENT: Final = "0x" + "00" * 32


def names_keys(settings: Settings) -> bool:
    """True if there are keys in the settings."""
    return any(
        (
            settings.validator_private_keys,
            settings.seq_publisher_private_keys,
            settings.prover_publisher_private_keys,
            settings.web3_signer_url,
        )
    )


def keystore_of_settings(settings: Settings) -> Keystore:
    """The first validator's address, unless COINBASE names another, gets the rewards of all of them; without
    publishers of its own it also pays for all.  KeystoreError, without any key in it.
    """
    validators = _signers(
        settings, "VALIDATOR_PRIVATE_KEYS", settings.validator_private_keys, settings.validator_addresses
    )
    publishers = _signers(
        settings,
        "SEQ_PUBLISHER_PRIVATE_KEYS",
        settings.seq_publisher_private_keys,
        settings.seq_publisher_addresses,
    )
    provers = _signers(
        settings,
        "PROVER_PUBLISHER_PRIVATE_KEYS",
        settings.prover_publisher_private_keys,
        settings.prover_publisher_addresses,
    )
    addresses = [signer.address for signer in validators]
    if len(set(addresses)) < len(addresses):
        raise KeystoreError("VALIDATOR_PRIVATE_KEYS: a key is there twice")
    return Keystore(
        validators=tuple(
            ValidatorKeys(
                attester=attester,
                bls=None,
                publishers=publishers or validators[:1],
                publishes_itself=not publishers,
                coinbase=settings.coinbase or validators[0].address,
                fee_recipient=settings.fee_recipient or _NO_RECIPIENT,
            )
            for attester in validators
        ),
        prover=ProverKeys(settings.prover_id or provers[0].address, provers) if provers else None,
        slashers=(),
    )


def _signers(settings: Settings, name: str, keys: Sequence[str] | None, addresses: Sequence[str]) -> tuple[Signer, ...]:
    url = settings.web3_signer_url
    if keys:
        return tuple(_key(name, place, text) for place, text in enumerate(keys))
    if url is None:
        return ()
    if not url.startswith(("http://", "https://")):
        raise KeystoreError("WEB3_SIGNER_URL is no http:// or https:// URL")
    return tuple(RemoteSigner(address.lower(), url) for address in addresses)


def _key(name: str, place: int, text: str) -> EthKey:
    digits = text.strip().removeprefix("0x")
    try:
        if len(digits) != _KEY_DIGITS:
            raise ValueError
        return EthKey(bytes.fromhex(digits))
    except ValueError:
        # The text is not repeated: it may be a key with a digit too many.
        raise KeystoreError(f"{name}: entry {place + 1} is no private key (0x and {_KEY_DIGITS} hex digits)") from None
