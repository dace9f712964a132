"""Accounts that networks begin with: those that have fee juice in the genesis block.

Test networks fund the test accounts, the contract that pays for everybody, and addresses of their own.  Which of them
a network funds is told by its archive root: each choice is tried, the one of the settings first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from fastnode.errors import SettingError
from fastnode.kernels import encode
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.genesis import PrefilledPublicData
from fastnode.protocol.releases import Release
from fastnode.protocol.siloing import fee_juice_balance_leaf_slot
from fastnode.records import dataclass

__all__ = [
    "BANANA_FPC",
    "FUNDS",
    "NO_FUNDING",
    "SPONSORED_FPC",
    "TEST_ACCOUNTS",
    "Funding",
    "UsualAccounts",
    "funds_of_entries",
    "usual_accounts",
]

#: Fee juice of each, in the smallest unit.
FUNDS: Final = 10**22
_AMOUNT_MAX: Final = (1 << 128) - 1
_ADDRESS_LENGTH: Final = len("0x") + 2 * FIELD_BYTES
_ADDRESS_TEXT: Final = f"an address is 0x and {2 * FIELD_BYTES} hex digits"
#: Accounts whose secrets are public.
TEST_ACCOUNTS: Final = tuple(
    map(
        bytes.fromhex,
        (
            "0a60414ee907527880b7a53d4dacdeb9ef768bb98d9d8d1e7200725c13763331",
            "00cedf87a800bd88274762d77ffd93e97bc881d1fc99570d62ba97953597914d",
            "1dd551228da3a56b5da5f5d73728e08d8114f59897c27136f1bcdd4c05028905",
        ),
    )
)
#: Pays fees for banana coins.
BANANA_FPC: Final = bytes.fromhex("099602ed42e355e5338ade3a9e314b3d15b6030b058a0c17c385f4a0f2d2b71a")
#: Pays the fees of any account; needs no deployment.
SPONSORED_FPC: Final = bytes.fromhex("09a4df73aa47f82531a038d1d51abfc85b27665c4b7ca751e2d4fa9f19caffb2")


class UsualAccounts(NamedTuple):
    """The test accounts, in the order of their secrets, and the contracts that pay fees, by the classes of one node
    version; None: not known."""

    test_accounts: tuple[bytes, ...]
    sponsored_fpc: bytes
    banana_fpc: bytes | None


#: By the node versions whose packages have other classes of accounts and contracts than those of 4.1.2; the first is
#: for all that are not named.
_USUAL: Final[Mapping[str, UsualAccounts]] = {
    "": UsualAccounts(TEST_ACCOUNTS, SPONSORED_FPC, BANANA_FPC),
    "4.3.0-nightly.20260417": UsualAccounts(
        tuple(
            map(
                bytes.fromhex,
                (
                    "1092539b9d20142398c8a8f3e9b0462f1d38cddd587c94b7bc80ff47e6a0b51a",
                    "1ab69f69c4c2c86e1b96355ad1766108de07742ec1128a46b0eca49a53157673",
                    "0c654565251db9e371ac91fafd0bf7b8ff741282d0774f757daf659d9dee80d9",
                ),
            )
        ),
        bytes.fromhex("254082b62f9108d044b8998f212bb145619d91bfcd049461d74babb840181257"),
        None,
    ),
}


def usual_accounts(version: str | None) -> UsualAccounts:
    """Accounts that wallets of a node version know."""
    return _USUAL.get(version or "", _USUAL[""])


@dataclass(frozen=True, slots=True)
class Funding:
    """Facts about a network's genesis: funds of addresses of its own, and which usual accounts have some."""

    funds: Mapping[bytes, int]
    sponsored_fpc: bool = False
    test_accounts: bool = False

    def choices(self, release: Release) -> Iterator[tuple[str, list[PrefilledPublicData]]]:
        """Names and leaves of every genesis of a release that it may be, the likeliest first."""
        for own in (self.funds, {}) if self.funds else ({},):
            for names, addresses in self._usual():
                shown = [*names, "PREFUND_ADDRESSES"] if own else names
                funds = dict.fromkeys(addresses, FUNDS) | dict(own)
                yield " and ".join(shown) or "no prefilled data", _leaves(funds, release)

    def _usual(self) -> Iterator[tuple[list[str], tuple[bytes, ...]]]:
        """Names and addresses of the usual accounts that may have funds, the likeliest first."""
        for tests, sponsor in product(_both(self.test_accounts), _both(self.sponsored_fpc)):
            if not (tests or sponsor):
                yield [], ()
                continue
            for version, usual in _USUAL.items():
                named = {"the test accounts": usual.test_accounts if tests else ()}
                named["the sponsored FPC"] = (usual.sponsored_fpc,) if sponsor else ()
                names = [name + (version and f" of {version}") for name, found in named.items() if found]
                addresses = tuple(address for found in named.values() for address in found)
                yield names, addresses
                if tests and sponsor and usual.banana_fpc is not None:  # no network funds it alone
                    yield [*names, "the banana FPC"], (*addresses, usual.banana_fpc)


NO_FUNDING: Final = Funding({})


def funds_of_entries(entries: Sequence[str]) -> dict[bytes, int]:
    """Read ADDRESS or ADDRESS:AMOUNT; SettingError names the entry that is wrong."""
    funds = {}
    for entry in entries:
        address, _, amount = entry.strip().partition(":")
        try:
            key = encode.field_from_text(address)
        except ValueError:
            raise SettingError(f"--prefund {entry}: expected ADDRESS or ADDRESS:AMOUNT, {_ADDRESS_TEXT}") from None
        if len(address) != _ADDRESS_LENGTH:
            digits = len(address) - len("0x")
            raise SettingError(f"--prefund {entry}: {_ADDRESS_TEXT}, and this one has {digits}")
        try:
            value = int(amount) if amount else FUNDS
        except ValueError:
            raise SettingError(
                f"--prefund {entry}: the amount {amount!r} is not a whole number; it is in the smallest unit, of which "
                "10^18 are one fee juice"
            ) from None
        if not 0 <= value <= _AMOUNT_MAX:
            raise SettingError(f"--prefund {entry}: the amount must be from 0 to {_AMOUNT_MAX}")
        funds[key] = value
    return funds


def _both(first: bool) -> tuple[bool, bool]:
    return first, not first


def _leaves(funds: Mapping[bytes, int], release: Release) -> list[PrefilledPublicData]:
    fee_juice = release.addresses.fee_juice
    balances = {fee_juice_balance_leaf_slot(address, fee_juice): amount for address, amount in funds.items()}
    return [PrefilledPublicData(slot, balances[slot].to_bytes(FIELD_BYTES, "big")) for slot in sorted(balances)]
