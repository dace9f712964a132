"""Accounts and contracts that exist on every local network; tutorials and wallets rely on them.

Three accounts (Schnorr, salt 0) whose secrets are public, a token, and two contracts that pay fees.  Their addresses
follow from their contracts and are the same on every local network of release 4.x.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastnode.config.allow_list import AllowedElement
from fastnode.protocol.releases import Release
from fastnode.sources import genesis_funds
from fastnode.sources.genesis_funds import BANANA_FPC, SPONSORED_FPC

__all__ = [
    "BANANA_COIN",
    "BANANA_FPC",
    "FUNDED",
    "SPONSORED_FPC",
    "TEST_ACCOUNTS",
    "TOKEN_ALLOW_LIST",
    "FundedAccount",
    "has_accounts",
    "setup_allow_list",
]


class FundedAccount(NamedTuple):
    """An account whose keys all follow from its secret, the signing key too."""

    address: bytes
    secret: bytes


TEST_ACCOUNTS: Final = tuple(
    FundedAccount(address, bytes.fromhex(secret))
    for address, secret in zip(
        genesis_funds.TEST_ACCOUNTS,
        (
            "2153536ff6628eee01cf4024889ff977a18d9fa61d0e414422f7681cf085c281",
            "0aebd1b4be76efa44f5ee655c20bf9ea60f7ae44b9a7fd1fd9f189c7a0b0cdae",
            "0f6addf0da06c33293df974a565b03d1ab096090d907d98055a8b7f4954e120c",
        ),
        strict=True,
    )
)

#: Token "BC", "BC", 18 decimals, of the first account.
BANANA_COIN: Final = bytes.fromhex("1a9dad3d9b9d55021a8ce457225fa3f89d413c05da170fdad413a74aefee2705")
#: Addresses that have fee juice in the genesis block.
FUNDED: Final = (*(account.address for account in TEST_ACCOUNTS), BANANA_FPC, SPONSORED_FPC)

_TOKEN_CLASS: Final = bytes.fromhex("01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee")

#: Calls that a fee-paying contract for tokens needs in the setup phase, beside the defaults.
TOKEN_ALLOW_LIST: Final = (
    AllowedElement(
        class_id=_TOKEN_CLASS,
        selector=bytes.fromhex("e7f045ff"),  # _increase_public_balance((Field),u128)
        calldata_length=3,
        only_self=True,
    ),
    AllowedElement(
        class_id=_TOKEN_CLASS,
        selector=bytes.fromhex("8c9e5472"),  # transfer_in_public((Field),(Field),u128,Field)
        calldata_length=5,
    ),
)


def has_accounts(release: Release) -> bool:
    """True if a new network of the release begins with these accounts and contracts: those of 5.x are not known."""
    return release.local_contracts_file is None


def setup_allow_list(release: Release) -> tuple[AllowedElement, ...]:
    """Calls that a local network of the release allows in the setup phase, beside the defaults."""
    return TOKEN_ALLOW_LIST if has_accounts(release) else ()
