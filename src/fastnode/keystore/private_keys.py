"""Private keys in memory: all that can be printed of them is their address."""

from __future__ import annotations

from typing import Final

from coincurve import PrivateKey as _Secp256k1Key

from fastnode.protocol.ethereum import keccak_256
from fastnode.records import dataclass

__all__ = ["BlsKey", "EthKey", "RemoteSigner", "Signer", "address_of"]

#: Order of the groups that private keys are drawn from.
_SECP256K1_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_BLS12_381_ORDER: Final = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001

_ADDRESS_BYTES: Final = 20
_KEY_BYTES: Final = 32


def address_of(secret: bytes) -> str:
    """The Ethereum address of a secp256k1 key, ``0x`` and lower-case hex digits."""
    point = _Secp256k1Key(secret).public_key.format(compressed=False)[1:]
    return "0x" + keccak_256(point)[-_ADDRESS_BYTES:].hex()


class EthKey:
    """A secp256k1 private key of ours.  ValueError, without the key, for 32 bytes that are none."""

    __slots__ = ("_secret", "address")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _KEY_BYTES or not 0 < int.from_bytes(secret, "big") < _SECP256K1_ORDER:
            raise ValueError("not a secp256k1 private key")
        self._secret = secret
        self.address = address_of(secret)

    def reveal(self) -> bytes:
        """The 32 bytes, for signing and nothing else."""
        return self._secret

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EthKey) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __repr__(self) -> str:
        return f"EthKey({self.address})"

    def __reduce__(self) -> str:
        raise TypeError("a private key does not leave the process")


class BlsKey:
    """A BLS12-381 private key of ours.  ValueError, without the key, for 32 bytes that are none."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _KEY_BYTES or not 0 < int.from_bytes(secret, "big") < _BLS12_381_ORDER:
            raise ValueError("not a BLS12-381 private key")
        self._secret = secret

    def reveal(self) -> bytes:
        """The 32 bytes, for signing and nothing else."""
        return self._secret

    def __repr__(self) -> str:
        return "BlsKey()"

    def __reduce__(self) -> str:
        raise TypeError("a private key does not leave the process")


@dataclass(frozen=True, slots=True)
class RemoteSigner:
    """A key that a remote signer holds and signs with."""

    address: str
    url: str


Signer = EthKey | RemoteSigner
