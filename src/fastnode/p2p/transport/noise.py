"""Noise_XX_25519_ChaChaPoly_SHA256 as libp2p uses it, without a socket.

    initiator                         responder
    e                            ──►
                                 ◄──  e, ee, s, es, payload
    s, se, payload               ──►

Payload: protobuf {1: identity key, 2: signature of ``noise-libp2p-static-key:`` || static key}.  Each message goes out
behind its length as two bytes (libp2p noise specification; facts of the network, section 1).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.encoding import protobuf
from fastnode.p2p.transport.identity import Identity, peer_id_of, read_public_key

__all__ = ["PLAINTEXT_BYTES_MAX", "Handshake", "Session"]

#: Longest plaintext of one message: 65,535 less the tag.
PLAINTEXT_BYTES_MAX: Final = 65_519

_NAME: Final = b"Noise_XX_25519_ChaChaPoly_SHA256"
_SIGNED_PREFIX: Final = b"noise-libp2p-static-key:"
_KEY_BYTES: Final = 32
_TAG_BYTES: Final = 16
#: Keys are made anew by a new connection: none is used for more messages.
_NONCE_MAX: Final = (1 << 32) - 1


class _Cipher:
    """One direction: a key and a counter."""

    __slots__ = ("_aead", "_nonce")

    def __init__(self, key: bytes) -> None:
        self._aead = ChaCha20Poly1305(key)
        self._nonce = 0

    def _next_nonce(self) -> bytes:
        if self._nonce > _NONCE_MAX:
            raise PeerFault("noise: a key has been used for too many messages")
        nonce = bytes(4) + self._nonce.to_bytes(8, "little")
        self._nonce += 1
        return nonce

    def seal(self, data: bytes, associated: bytes = b"") -> bytes:
        return self._aead.encrypt(self._next_nonce(), data, associated)

    def open(self, data: bytes, associated: bytes = b"") -> bytes:
        try:
            return self._aead.decrypt(self._next_nonce(), data, associated)
        except (InvalidTag, ValueError):
            raise PeerFault("noise: a message does not open") from None


def _two_keys(chaining: bytes, material: bytes) -> tuple[bytes, bytes]:
    secret = hmac.digest(chaining, material, "sha256")
    first = hmac.digest(secret, b"\1", "sha256")
    return first, hmac.digest(secret, first + b"\2", "sha256")


class _Symmetric:
    """State of a handshake: hash of what was said so far, chaining key, cipher."""

    def __init__(self) -> None:
        self.hash = self.chaining = _NAME
        self._cipher: _Cipher | None = None
        self.mix(b"")  # there is no prologue

    def mix(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, secret: X25519PrivateKey, public: X25519PublicKey) -> None:
        try:
            material = secret.exchange(public)
        except ValueError:
            raise PeerFault("noise: a key of the peer is of low order") from None
        self.chaining, key = _two_keys(self.chaining, material)
        self._cipher = _Cipher(key)

    def seal(self, data: bytes) -> bytes:
        out = data if self._cipher is None else self._cipher.seal(data, self.hash)
        self.mix(out)
        return out

    def open(self, data: bytes) -> bytes:
        out = data if self._cipher is None else self._cipher.open(data, self.hash)
        self.mix(data)
        return out


class Session:
    """Messages of a connection whose peer is known."""

    def __init__(self, sending: bytes, receiving: bytes, peer_id: str) -> None:
        self.peer_id = peer_id
        self._sending, self._receiving = _Cipher(sending), _Cipher(receiving)

    def seal(self, data: bytes) -> bytes:
        """``data`` in as many messages as it takes, each behind its length."""
        out = bytearray()
        for start in range(0, len(data), PLAINTEXT_BYTES_MAX):
            sealed = self._sending.seal(data[start : start + PLAINTEXT_BYTES_MAX])
            out += len(sealed).to_bytes(2, "big") + sealed
        return bytes(out)

    def open(self, message: bytes) -> bytes:
        """PeerFault if it is not what the peer has sent next."""
        return self._receiving.open(message)


class Handshake:
    """One side of it.  ``static`` and ``ephemeral`` are new unless a test gives them."""

    def __init__(
        self,
        identity: Identity,
        *,
        is_initiator: bool,
        static: X25519PrivateKey | None = None,
        ephemeral: X25519PrivateKey | None = None,
    ) -> None:
        self._static = static or X25519PrivateKey.generate()
        self._ephemeral = ephemeral or X25519PrivateKey.generate()
        self._state = _Symmetric()
        self._is_initiator = is_initiator
        self._remote_ephemeral: X25519PublicKey | None = None
        self._payload = protobuf((1, identity.public_key), (2, identity.sign(_SIGNED_PREFIX + _public(self._static))))
        #: None until it is complete.
        self.session: Session | None = None

    def begin(self) -> bytes:
        """The first message, with its length; empty for who waits for it."""
        if not self._is_initiator:
            return b""
        state = self._state
        state.mix(_public(self._ephemeral))
        return _with_length(_public(self._ephemeral) + state.seal(b""))

    def receive(self, message: bytes) -> bytes:
        """Message to answer with, behind its length, or nothing; PeerFault for a message that is not the next one."""
        if self._is_initiator:
            return self._receive_second(message)
        return self._receive_first(message) if self._remote_ephemeral is None else self._receive_third(message)

    def _receive_first(self, message: bytes) -> bytes:
        state, remote = self._state, self._take_ephemeral(message)
        state.open(message[_KEY_BYTES:])
        state.mix(_public(self._ephemeral))
        state.mix_key(self._ephemeral, remote)
        sealed_static = state.seal(_public(self._static))
        state.mix_key(self._static, remote)
        return _with_length(_public(self._ephemeral) + sealed_static + state.seal(self._payload))

    def _receive_second(self, message: bytes) -> bytes:
        state, remote = self._state, self._take_ephemeral(message)
        state.mix_key(self._ephemeral, remote)
        remote_static, rest = self._take_static(message[_KEY_BYTES:])
        state.mix_key(self._ephemeral, remote_static)
        peer_id = _check_payload(state.open(rest), remote_static)
        sealed_static = state.seal(_public(self._static))
        state.mix_key(self._static, remote)
        answer = _with_length(sealed_static + state.seal(self._payload))
        self._finish(peer_id)
        return answer

    def _receive_third(self, message: bytes) -> bytes:
        state = self._state
        remote_static, rest = self._take_static(message)
        state.mix_key(self._ephemeral, remote_static)
        self._finish(_check_payload(state.open(rest), remote_static))
        return b""

    def _take_ephemeral(self, message: bytes) -> X25519PublicKey:
        if len(message) < _KEY_BYTES:
            raise PeerFault("noise: a message is too short")
        self._remote_ephemeral = X25519PublicKey.from_public_bytes(message[:_KEY_BYTES])
        self._state.mix(message[:_KEY_BYTES])
        return self._remote_ephemeral

    def _take_static(self, rest: bytes) -> tuple[X25519PublicKey, bytes]:
        size = _KEY_BYTES + _TAG_BYTES
        if len(rest) < size:
            raise PeerFault("noise: a message is too short")
        return X25519PublicKey.from_public_bytes(self._state.open(rest[:size])), rest[size:]

    def _finish(self, peer_id: str) -> None:
        first, second = _two_keys(self._state.chaining, b"")
        sending, receiving = (first, second) if self._is_initiator else (second, first)
        self.session = Session(sending, receiving, peer_id)


def _public(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _with_length(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


def _check_payload(payload: bytes, static: X25519PublicKey) -> str:
    """The peer id whose key has signed the static key."""
    try:
        fields = dict(peer_frames.read_fields(payload, 16))
    except ValueError as error:
        raise PeerFault(f"noise: {error}") from error
    key, signature = fields.get(1), fields.get(2)
    if not isinstance(key, bytes) or not isinstance(signature, bytes):
        raise PeerFault("noise: the payload has no key or no signature")
    try:
        is_right = read_public_key(key).verify(signature, _SIGNED_PREFIX + static.public_bytes_raw())
    except ValueError:  # a signature that is none
        is_right = False
    if not is_right:
        raise PeerFault("noise: the signature of the identity key is wrong")
    return peer_id_of(key)
