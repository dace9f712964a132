"""Signing a message with a validator's key, so that other validators let this node in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from coincurve import PrivateKey

from fastnode.errors import UpstreamError
from fastnode.keystore.private_keys import RemoteSigner
from fastnode.log import log_facts
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.ethereum import keccak_256, recover_signer, signed_digest, with_recovery_byte

if TYPE_CHECKING:
    from fastnode.keystore.private_keys import Signer
    from fastnode.keystore.validators import Validators

__all__ = ["ValidatorMessages"]

logger = logging.getLogger("fastnode.app")

_LIMITS: Final = ClientLimits(request_time_s=5.0, response_bytes_max=4096)


class ValidatorMessages:
    """``disabled``: addresses of validators whose keys sign nothing now."""

    def __init__(self, validators: Validators, disabled: Callable[[], Collection[bytes]] = lambda: ()) -> None:
        self._validators = validators
        self._disabled = disabled

    def sign(self, message: bytes, prefers: Callable[[bytes], bool] = lambda _address: False) -> bytes | None:
        """r 32, s 32, v as u32, over the hash of a message as a personal message; None if no key can be used.

        ``prefers`` an address that other nodes know now, as a member of a committee.

        Such a signature may be made any number of times.  Waits for a remote signer.
        """
        disabled, keystore = self._disabled(), self._validators.keystore
        signers = [keys.attester for keys in keystore.validators if _address(keys.attester) not in disabled]
        signers.sort(key=lambda signer: not prefers(_address(signer)))
        if not signers:
            return None
        digest = keccak_256(message)
        made = _ask(signers[0], digest) if isinstance(signers[0], RemoteSigner) else _sign(signers[0].reveal(), digest)
        if made is None or recover_signer(signed_digest(digest), made) != _address(signers[0]):
            return None
        return made[:64] + bytes([0, 0, 0, made[64]])


def _address(signer: Signer) -> bytes:
    return bytes.fromhex(signer.address[2:])


def _sign(secret: bytes, digest: bytes) -> bytes:
    made = PrivateKey(secret).sign_recoverable(signed_digest(digest), hasher=None)
    return with_recovery_byte(made)


def _ask(signer: RemoteSigner, digest: bytes) -> bytes | None:
    try:
        with Network() as network:
            call = ("eth_sign", [signer.address, "0x" + digest.hex()])
            answer = RpcClient(signer.url, network, _LIMITS).ask([call]).results()[0]
        made = bytes.fromhex(str(answer).removeprefix("0x"))
    except (UpstreamError, ValueError) as error:
        logger.warning("a remote signer does not sign for peers", extra=log_facts(reason=str(error)))
        return None
    return with_recovery_byte(made) if len(made) == 65 else None
