"""The key of the admin port: where it comes from, how it is kept, how a request is checked against it.

    --disable-admin-api-key     no key is asked for
    --admin-api-key-hash HASH   the SHA-256 of a key that the operator made
    <data directory>/admin/api_key_hash
                                the SHA-256 of the key that an earlier start made, as 64 hex digits, mode 0600
    otherwise                   a new key: 32 random bytes as 64 hex digits, shown once, only its hash is kept

The hash is that of the key's text, not of the bytes that its digits encode, so that
``printf %s "$KEY" | sha256sum`` gives it.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self, TextIO

from fastnode.errors import DataDirectoryError, ServerError, SettingError, StartError
from fastnode.files import replace_file, system_reason
from fastnode.http.health import PROBE_PATHS
from fastnode.http.messages import Response, header_fields
from fastnode.jsonrpc.json_text import error_text
from fastnode.log import log_facts
from fastnode.records import dataclass

__all__ = ["HASH_FILE", "UNAUTHORIZED", "AdminKey", "ApiKeyGuard", "choose_admin_key", "introduce", "read_key_hash"]

logger = logging.getLogger(__name__)

#: In the data directory.
HASH_FILE: Final = Path("admin") / "api_key_hash"

_KEY_BYTES: Final = 32
_HASH_TEXT: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


# ---- where the key comes from -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AdminKey:
    """``digest`` is None when no key is asked for.

    ``new_key`` is a key not shown yet, and ``file`` is where its hash will be kept; see :func:`introduce`.
    """

    digest: bytes | None
    new_key: str | None = field(default=None, repr=False)
    file: Path | None = None


def choose_admin_key(*, disabled: bool, digest_text: str | None, reset: bool, data_directory: Path | None) -> AdminKey:
    """The key of this start; ``data_directory`` is None if nothing survives the process.

    SettingError for an invalid hash; DataDirectoryError when the hash file cannot be read.
    """
    if disabled:
        logger.warning("No admin API key set — admin endpoint is unauthenticated")
        return AdminKey(None)
    if digest_text is not None:
        return AdminKey(read_key_hash(digest_text))
    if data_directory is None:
        logger.warning("no --data-directory: the admin API key is a new one at each start")
        logger.warning("to keep a key, set --data-directory, or --admin-api-key-hash to the SHA-256 of one of yours")
        return _make_key(None)
    file = data_directory / HASH_FILE
    try:
        digest = None if reset else _read_digest(file)
    except OSError as error:
        raise _unusable(file, error) from None
    return _make_key(file) if digest is None else AdminKey(digest)


def read_key_hash(text: str) -> bytes:
    """The SHA-256 of the key; SettingError for an invalid one, which is not repeated: it may be the key itself."""
    if _HASH_TEXT.fullmatch(text) is None:
        raise SettingError('Invalid admin API key hash: expected 64-char hex string, got "…"')
    return bytes.fromhex(text)


def _unusable(file: Path, error: OSError) -> DataDirectoryError:
    return DataDirectoryError(f"the hash of the admin API key in {file} cannot be used: {system_reason(file, error)}")


def _read_digest(file: Path) -> bytes | None:
    """None if there is no file, or none that makes sense."""
    try:
        text = file.read_bytes().decode("latin-1").strip().lower()
    except FileNotFoundError:
        return None
    if _HASH_TEXT.fullmatch(text) is None:
        logger.warning("the stored hash of the admin API key is damaged: a new key is made", extra=log_facts(path=file))
        return None
    return bytes.fromhex(text)


def _make_key(file: Path | None) -> AdminKey:
    key = secrets.token_hex(_KEY_BYTES)
    return AdminKey(hashlib.sha256(key.encode("ascii")).digest(), key, file)


def _write_digest(file: Path, digest: bytes) -> None:
    """Whole or not at all: a start that is killed in between leaves the old hash or the new one."""
    file.parent.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    replace_file(file, digest.hex().encode("ascii"), mode=_FILE_MODE)


def introduce(key: AdminKey) -> None:
    """Show a new key on standard output, once, and keep its hash; nothing for a key that is known already.

    In this order, and only when the port is open: a start that fails or is killed on the way then never leaves the
    hash of an unseen key.  DataDirectoryError when the hash cannot be kept, StartError when nothing can be shown:
    no message has the key, as standard error is a log.
    """
    if key.digest is None or key.new_key is None:
        return
    output: TextIO | None = sys.stdout
    try:
        if output is None:  # it was closed before this process began
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        print(_banner(key), file=output, flush=True)
    except (OSError, ValueError) as error:  # also of an encoding, with all of the text in it
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise StartError(
            f"the new admin API key cannot be shown on standard output ({reason}): give --admin-api-key-hash, the "
            f"SHA-256 of a key of yours"
        ) from None
    if key.file is None:
        return
    try:
        _write_digest(key.file, key.digest)
    except OSError as error:
        raise _unusable(key.file, error) from None


def _banner(key: AdminKey) -> str:
    line = "=" * 70
    kept = ("", "  The key hash has been persisted — on next restart, the same key will be used.") if key.file else ()
    lines = (
        "",
        line,
        "  ADMIN API KEY (save this — it will NOT be shown again)",
        "",
        f"  {key.new_key}",
        "",
        f"  Use via header:  x-api-key: {key.new_key}",
        f"  Or via header:   Authorization: Bearer {key.new_key}",
        *kept,
        "",
        "  To disable admin auth: --disable-admin-api-key or SVC_DISABLE_ADMIN_API_KEY=true",
        line,
        "",
    )
    return "\n".join(lines)


# ---- requests -----------------------------------------------------------------------------------

#: Body of the answer to a request without the key.
UNAUTHORIZED: Final = error_text(ServerError.code, "Unauthorized: invalid or missing API key")
_REFUSAL: Final = Response(
    HTTPStatus.UNAUTHORIZED,
    header_fields(("Vary", "Accept-Encoding"), ("Content-Type", "application/json; charset=utf-8")),
    UNAUTHORIZED,
)
_BEARER: Final = re.compile(rb"bearer +", re.IGNORECASE)


def _none_is_open(_path: bytes) -> bool:
    return False


class ApiKeyGuard:
    """Admits requests with the key whose SHA-256 is ``digest``, and GET of a probe (/status, /livez, /readyz), of one
    of ``open_paths``, or of a path for which ``is_open`` is true.

    Nothing is learned from how long the answer takes: what is compared are hashes, all 32 bytes of them.
    """

    def __init__(
        self, digest: bytes, open_paths: Iterable[bytes] = (), is_open: Callable[[bytes], bool] = _none_is_open
    ) -> None:
        self._digest = digest
        self._is_open = is_open
        self._open_paths = PROBE_PATHS.union(open_paths)
        self.refusal = _REFUSAL

    @classmethod
    def of(
        cls, key: AdminKey, open_paths: Iterable[bytes] = (), is_open: Callable[[bytes], bool] = _none_is_open
    ) -> Self | None:
        """None if no key is asked for."""
        return None if key.digest is None else cls(key.digest, open_paths, is_open)

    def admits(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bool:
        if method == b"GET":
            path = target.partition(b"?")[0]
            if path in self._open_paths or self._is_open(path):
                return True
        return self.knows_key(headers)

    def knows_key(self, headers: Mapping[bytes, bytes]) -> bool:
        """True if a request carries the key."""
        return hmac.compare_digest(hashlib.sha256(_presented_key(headers)).digest(), self._digest)


def _presented_key(headers: Mapping[bytes, bytes]) -> bytes:
    """``x-api-key`` or ``x-aztec-api-key`` if it is not empty, else ``Authorization`` with or without ``Bearer``; empty
    if there is none."""
    for name in (b"x-api-key", b"x-aztec-api-key"):
        key = headers.get(name, b"").strip()
        if key:
            return key
    authorization = headers.get(b"authorization", b"").strip()
    scheme = _BEARER.match(authorization)
    return authorization if scheme is None else authorization[scheme.end() :]
