"""Accounts and contracts that exist on every local network; tutorials and wallets rely on them.

Three accounts (Schnorr, salt 0) whose secrets are public, a token, and two contracts that pay fees.  Their addresses
follow from their contracts and are the same on every local network of release 4.x.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastnode.config.allow_list import AllowedElement

__all__ = [
    "BANANA_COIN",
    "BANANA_FPC",
    "FUNDED",
    "SPONSORED_FPC",
    "TEST_ACCOUNTS",
    "TOKEN_ALLOW_LIST",
    "FundedAccount",
]


class FundedAccount(NamedTuple):
    """An account whose keys all follow from its secret, the signing key too."""

    address: bytes
    secret: bytes


TEST_ACCOUNTS: Final = tuple(
    FundedAccount(bytes.fromhex(address), bytes.fromhex(secret))
    for address, secret in (
        (
            "0a60414ee907527880b7a53d4dacdeb9ef768bb98d9d8d1e7200725c13763331",
            "2153536ff6628eee01cf4024889ff977a18d9fa61d0e414422f7681cf085c281",
        ),
        (
            "00cedf87a800bd88274762d77ffd93e97bc881d1fc99570d62ba97953597914d",
            "0aebd1b4be76efa44f5ee655c20bf9ea60f7ae44b9a7fd1fd9f189c7a0b0cdae",
        ),
        (
            "1dd551228da3a56b5da5f5d73728e08d8114f59897c27136f1bcdd4c05028905",
            "0f6addf0da06c33293df974a565b03d1ab096090d907d98055a8b7f4954e120c",
        ),
    )
)

#: Token "BC", "BC", 18 decimals, of the first account.
BANANA_COIN: Final = bytes.fromhex("1a9dad3d9b9d55021a8ce457225fa3f89d413c05da170fdad413a74aefee2705")
#: Pays fees for banana coins.
BANANA_FPC: Final = bytes.fromhex("099602ed42e355e5338ade3a9e314b3d15b6030b058a0c17c385f4a0f2d2b71a")
#: Pays the fees of any account; needs no deployment.
SPONSORED_FPC: Final = bytes.fromhex("09a4df73aa47f82531a038d1d51abfc85b27665c4b7ca751e2d4fa9f19caffb2")

#: Who has fee juice in the genesis block.
FUNDED: Final = (*(account.address for account in TEST_ACCOUNTS), BANANA_FPC, SPONSORED_FPC)

_TOKEN_CLASS: Final = bytes.fromhex("01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee")

#: What a fee-paying contract for tokens needs in the setup phase, beside the defaults.
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
