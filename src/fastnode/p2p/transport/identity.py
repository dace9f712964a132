"""Identity of a node on the network: a secp256k1 key, kept for good.

    stored form       hex of the protobuf 08 02 12 20 || secret (32 bytes), as the reference keeps it
    public key        protobuf 08 02 12 21 || compressed key (33 bytes)
    peer id           base58(00 25 || public key): it begins with 16Uiu2HA

The key comes from PEER_ID_PRIVATE_KEY, else from the file PEER_ID_PRIVATE_KEY_PATH, else from ``p2p-private-key`` in
the data directory, where it is made when there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from coincurve import PrivateKey, PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact

from fastnode.errors import PeerFault, SettingError
from fastnode.files import replace_file, system_reason
from fastnode.kernels import peer_frames
from fastnode.p2p.transport.encoding import base58, protobuf

__all__ = ["KEY_FILE", "Identity", "check_identity", "load_identity", "peer_id_of", "read_public_key", "verify_compact"]

#: In the data directory.
KEY_FILE: Final = "p2p-private-key"

_SECP256K1: Final = 2
_SECRET_BYTES: Final = 32
_COMPRESSED_BYTES: Final = 33


class Identity:
    """The key of this node."""

    def __init__(self, secret: bytes | None = None) -> None:
        """A new one without ``secret`` (32 bytes); ValueError for bytes that are no secret."""
        self.key = PrivateKey(secret)
        self.compressed: bytes = self.key.public_key.format()
        self.public_key = protobuf((1, _SECP256K1), (2, self.compressed))
        self.peer_id = peer_id_of(self.public_key)

    @classmethod
    def from_text(cls, text: str) -> Identity:
        """From the stored form; ValueError for anything else."""
        try:
            fields = dict(peer_frames.read_fields(bytes.fromhex(text.strip()), 4))
        except ValueError as error:
            raise ValueError(f"it is no private key of a peer: {error}") from error
        secret = fields.get(2)
        if fields.get(1) != _SECP256K1 or not isinstance(secret, bytes) or len(secret) != _SECRET_BYTES:
            raise ValueError("it is no private key of a peer: 08021220 and 32 bytes as hex are expected")
        return cls(secret)

    def to_text(self) -> str:
        return protobuf((1, _SECP256K1), (2, self.key.secret)).hex()

    def sign(self, data: bytes) -> bytes:
        """ECDSA over SHA-256, DER."""
        return bytes(self.key.sign(data))

    def sign_digest_compact(self, digest: bytes) -> bytes:
        """r 32 | s 32 over 32 bytes."""
        return bytes(self.key.sign_recoverable(digest, hasher=None)[:64])


def peer_id_of(public_key: bytes) -> str:
    """Peer id of a public key as protobuf, at most 42 bytes."""
    return base58(bytes([0, len(public_key)]) + public_key)


def read_public_key(data: bytes) -> PublicKey:
    """From its protobuf; PeerFault for another kind of key, or none."""
    try:
        fields = dict(peer_frames.read_fields(data, 4))
        key = fields.get(2)
        if fields.get(1) != _SECP256K1 or not isinstance(key, bytes) or len(key) != _COMPRESSED_BYTES:
            raise PeerFault("the identity key is not of secp256k1")
        return PublicKey(key)
    except ValueError as error:
        raise PeerFault(f"the identity key is none: {error}") from error


def verify_compact(key: PublicKey, signature: bytes, digest: bytes) -> bool:
    """True if ``signature`` (r 32 | s 32) is one of the digest (32 bytes) by ``key``."""
    if len(signature) != 64:
        return False
    try:
        return bool(key.verify(cdata_to_der(deserialize_compact(signature)), digest, hasher=None))
    except ValueError:
        return False


def load_identity(data_directory: Path, *, key: str | None, path: Path | None) -> Identity:
    """The key of the settings, of the file they name, or of the data directory, where it is made if need be.

    SettingError for a key that is none; StartError when a file cannot be read or written.
    """
    if key is not None:
        return _from_text(key, "peer-id-private-key")
    file = path or data_directory / KEY_FILE
    try:
        return _from_text(file.read_text(encoding="ascii"), str(file))
    except FileNotFoundError:
        return _make(file)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{file}: the key of the peer-to-peer network cannot be read: {error}") from None


def check_identity(key: str | None, path: Path | None) -> None:
    """SettingError for a key that is none, in the settings or in a file that is there already."""
    if key is not None:
        _from_text(key, "peer-id-private-key")
    elif path is not None and path.exists():
        load_identity(path.parent, key=None, path=path)


def _from_text(text: str, where: str) -> Identity:
    try:
        return Identity.from_text(text)
    except ValueError as error:
        raise SettingError(f"{where}: {error}") from None


def _make(file: Path) -> Identity:
    identity = Identity()
    try:
        replace_file(file, identity.to_text().encode("ascii"), mode=0o600)
    except OSError as error:
        reason = system_reason(file, error)
        raise SettingError(f"{file}: the key of the peer-to-peer network cannot be written: {reason}") from None
    return identity
