"""Keys of this node, by what they are for.  Whoever only asks for them needs no cryptography."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.keystore.private_keys import BlsKey, RemoteSigner, Signer

__all__ = ["NO_KEYS", "Keystore", "ProverKeys", "ValidatorKeys"]


@dataclass(frozen=True, slots=True)
class ValidatorKeys:
    """One attester and what goes with it."""

    attester: Signer
    bls: BlsKey | None
    publishers: tuple[Signer, ...]
    #: No publisher is named anywhere, so the attester publishes for itself.
    publishes_itself: bool
    coinbase: str
    fee_recipient: str

    @property
    def address(self) -> str:
        return self.attester.address


@dataclass(frozen=True, slots=True)
class ProverKeys:
    id: str
    publishers: tuple[Signer, ...]


@dataclass(frozen=True, slots=True)
class Keystore:
    """All files together.  An attester is there once."""

    validators: tuple[ValidatorKeys, ...]
    prover: ProverKeys | None
    slashers: tuple[Signer, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the validators."""
        return tuple(validator.address for validator in self.validators)

    @property
    def signers(self) -> tuple[Signer, ...]:
        """Signers of the validators and of the prover."""
        own = [signer for each in self.validators for signer in (each.attester, *each.publishers)]
        return (*own, *(() if self.prover is None else self.prover.publishers))

    @property
    def remote_signers(self) -> frozenset[RemoteSigner]:
        """Everybody else who is to sign for it."""
        from fastnode.keystore.private_keys import RemoteSigner

        return frozenset(each for each in (*self.slashers, *self.signers) if isinstance(each, RemoteSigner))

    @property
    def publishers(self) -> frozenset[str]:
        """Addresses of everybody who publishes for a validator."""
        return frozenset(signer.address for validator in self.validators for signer in validator.publishers)


#: Keystore of a node that has no keys.
NO_KEYS: Final = Keystore(validators=(), prover=None, slashers=())
