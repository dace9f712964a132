"""The keystore: who the node's validators are, and with which keys they attest and publish.

    { schemaVersion: 1 | 2,  validators?: [Validator],  prover?,  slasher?,  remoteSigner?,  fundingAccount?,
      publisher?, coinbase?, feeRecipient?  (version 2) }
    Validator   { attester, feeRecipient, coinbase?, publisher?, remoteSigner?, fundingAccount? }
    attester    EthAccount | {eth: EthAccount, bls?: BlsAccount} | [of these] | Mnemonic
    publisher   EthAccounts = EthAccount | [EthAccount] | Mnemonic
    EthAccount  "0x" + 64 hex digits (a private key) | "0x" + 40 hex digits (an address at the remote signer)
                | {address, remoteSignerUrl?, certPath?, certPass?}
                | {path, password?} (a key file, or a directory of them)
    Mnemonic    {mnemonic, addressIndex?, accountIndex?, addressCount?, accountCount?}

A keystore is one file, or every ``*.json`` of a directory; a directory of key files has ``*.json`` and geth's
``UTC--*``.  Other files there are skipped, also the ``._*`` that macOS leaves beside files, and the log names them.  A
byte order mark is ignored.  Objects are strict: an unknown key is an error.  No error has any value of the file in it
but addresses, paths and names of keys.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from fastnode.errors import KeystoreError
from fastnode.files import system_reason
from fastnode.keystore.key_files import KeyFileError, decrypt_key_file
from fastnode.keystore.keys import Keystore, ProverKeys, ValidatorKeys
from fastnode.keystore.mnemonic import derive_key, seed_of
from fastnode.keystore.private_keys import BlsKey, EthKey, RemoteSigner, Signer
from fastnode.log import log_facts

__all__ = ["load_keystore"]

logger = logging.getLogger(__name__)

#: Names of keystores and of key files in a directory.
_DOCUMENTS: Final = re.compile(r".*\.json", re.DOTALL)
_KEY_FILES: Final = re.compile(r".*\.json|UTC--.*", re.DOTALL)
#: Prefix of the files in which macOS keeps attributes of others.
_APPLE_DOUBLE: Final = "._"
_SKIPPED_NAMED_MAX: Final = 10
#: A mnemonic and a directory of key files may bring this many keys.
KEYS_MAX: Final = 10_000

NO_FEE_RECIPIENT: Final = (
    "Each validator must have a feeRecipient, or a top-level feeRecipient must be set for all validators"
)

_VALIDATOR_KEYS: Final = frozenset(
    {"attester", "feeRecipient", "coinbase", "publisher", "remoteSigner", "fundingAccount"}
)
_TOP_KEYS: Final = frozenset({"schemaVersion", "validators", "slasher", "remoteSigner", "prover", "fundingAccount"})
_TOP_KEYS_V2: Final = _TOP_KEYS | {"publisher", "coinbase", "feeRecipient"}
_REMOTE_KEYS: Final = frozenset({"remoteSignerUrl", "certPath", "certPass"})
_MNEMONIC_KEYS: Final = frozenset({"mnemonic", "addressIndex", "accountIndex", "addressCount", "accountCount"})
_INDEX_MAX: Final = (1 << 31) - 1

_PRIVATE_KEY: Final = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ETH_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
#: A name that an error may show.  A private key or a mnemonic in the place of a name is longer, or has blanks.
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,29}", re.ASCII)
_AZTEC_ADDRESS: Final = _PRIVATE_KEY  # 32 bytes too

Key = TypeVar("Key")


class _Issue(Exception):  # noqa: N818 - what is wrong with one place of a file
    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{reason} ({path})")


# ---- files --------------------------------------------------------------------------------------


def load_keystore(path: Path) -> Keystore:
    """The keystore at ``path``, a file or a directory; KeystoreError says which file and which place is wrong."""
    files = [_load_file(file) for file in _files(path)]
    if len({version for version, _ in files}) > 1:
        raise KeystoreError(f"Failed to load keystore from {path}: the files have different schema versions")
    stores = [store for _, store in files]
    provers = [store.prover for store in stores if store.prover is not None]
    if len(provers) > 1:
        raise KeystoreError(f"Failed to load keystore from {path}: more than one file configures a prover")
    _require_distinct(stores)
    return Keystore(
        validators=tuple(validator for store in stores for validator in store.validators),
        prover=provers[0] if provers else None,
        slashers=tuple(signer for store in stores for signer in store.slashers),
    )


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.exists():
        raise KeystoreError(f"Failed to load keystore from {path}: File or directory not found")
    if not path.is_dir():
        raise KeystoreError(f"Failed to load keystore from {path}: Path is neither a file nor directory")
    files = _files_in(path, _DOCUMENTS, "keystore directory")
    if not files:
        raise KeystoreError(f"Failed to load keystore from {path}: No valid keystore files found")
    return files


def _files_in(directory: Path, names: re.Pattern[str], what: str) -> list[Path]:
    """The files of ``directory`` with such names, in their order; KeystoreError for a link that leads nowhere.

    The log names those that are skipped: one of them may have been meant to be a validator.
    """
    found, skipped = [], []
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise KeystoreError(f"Failed to load keystore from {directory}: {system_reason(directory, error)}") from None
    for entry in entries:
        is_named = names.fullmatch(entry.name) is not None and not entry.name.startswith(_APPLE_DOUBLE)
        if is_named and entry.is_file():
            found.append(entry)
        elif is_named and entry.is_symlink() and not entry.exists():
            raise KeystoreError(
                f"Failed to load keystore from {entry}: it is a link to {entry.readlink()}, which does not exist; "
                f"restore that file, or remove the link"
            )
        elif is_named or not entry.is_dir():
            skipped.append(entry.name)
    if skipped:
        more = f" and {len(skipped) - _SKIPPED_NAMED_MAX} more" if len(skipped) > _SKIPPED_NAMED_MAX else ""
        facts = log_facts(directory=directory, files=", ".join(skipped[:_SKIPPED_NAMED_MAX]) + more, loaded=len(found))
        logger.warning(f"{what}: skipped files with other names", extra=facts)
    return found


def _load_json(file: Path) -> Any:
    """The document in a file.  OSError; JSONDecodeError."""
    return orjson.loads(file.read_bytes().removeprefix(codecs.BOM_UTF8))


def _load_file(file: Path) -> tuple[int, Keystore]:
    try:
        reader = _Reader(file.parent)
        return reader.read(_load_json(file))
    except OSError as error:
        raise KeystoreError(f"Failed to load keystore from {file}: {system_reason(file, error)}") from None
    except orjson.JSONDecodeError:
        # The parser's message quotes the document.
        raise KeystoreError(f"Failed to load keystore from {file}: Invalid JSON format") from None
    except _Issue as issue:
        raise KeystoreError(f"Failed to load keystore from {file}: Schema validation failed: {issue}") from None


def _require_distinct(stores: list[Keystore]) -> None:
    seen: dict[str, int] = {}
    for index, store in enumerate(stores):
        for address in store.addresses:
            if address not in seen:
                seen[address] = index
            elif seen[address] == index:
                raise KeystoreError(
                    f"Duplicate attester address found: {address}. "
                    f"An attester address may only appear once across all configuration blocks."
                )
            else:
                raise KeystoreError(f"Duplicate attester address {address} found across keystore files")


# ---- one document ---------------------------------------------------------------------------------


class _Reader:
    """Reads one document; relative paths in it start at ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, document: object) -> tuple[int, Keystore]:
        top = _object(document, "")
        version = top.get("schemaVersion")
        if type(version) is not int or version not in (1, 2):
            raise _Issue("schemaVersion must be 1 or 2", "schemaVersion")
        _require_keys(top, _TOP_KEYS if version == 1 else _TOP_KEYS_V2, "")
        if "validators" not in top and "prover" not in top:
            raise _Issue("Keystore must have at least validators or prover configuration")
        remote = _remote_signer(top, "")
        self._signers_of(top, "fundingAccount", remote)
        slashers = self._signers_of(top, "slasher", remote) or ()
        prover = self._prover(top["prover"], remote) if "prover" in top else None
        validators = self._validators(top, remote, version)
        return version, Keystore(validators, prover, slashers)

    def _validators(self, top: Mapping[str, Any], remote: str | None, version: int) -> tuple[ValidatorKeys, ...]:
        items = top.get("validators", [])
        if not isinstance(items, list):
            raise _Issue("Expected array", "validators")
        publishers = self._signers_of(top, "publisher", remote)
        coinbase = _optional(top, "coinbase", _eth_address, "")
        fee_recipient = _optional(top, "feeRecipient", _aztec_address, "")
        found: list[ValidatorKeys] = []
        for index, item in enumerate(items):
            path = f"validators.{index}"
            validator = _object(item, path)
            _require_keys(validator, _VALIDATOR_KEYS, path)
            own_remote = _remote_signer(validator, path) or remote
            own_publishers = self._signers_of(validator, "publisher", own_remote, path) or publishers
            own_coinbase = _optional(validator, "coinbase", _eth_address, path) or coinbase
            recipient = _optional(validator, "feeRecipient", _aztec_address, path) or fee_recipient
            self._signers_of(validator, "fundingAccount", own_remote, path)
            if recipient is None and version == 1:
                raise _Issue("Required", f"{path}.feeRecipient")
            if recipient is None:
                raise _Issue(NO_FEE_RECIPIENT, f"{path}.feeRecipient")
            if "attester" not in validator:
                raise _Issue("Required", f"{path}.attester")
            for attester, bls in self._attesters(validator["attester"], own_remote, f"{path}.attester"):
                found.append(
                    ValidatorKeys(
                        attester,
                        bls,
                        own_publishers or (attester,),
                        own_publishers is None,
                        own_coinbase or attester.address,
                        recipient,
                    )
                )
        return tuple(found)

    def _attesters(self, value: object, remote: str | None, path: str) -> Iterator[tuple[Signer, BlsKey | None]]:
        if isinstance(value, list):
            if not value:
                raise _Issue("must have an account", path)
            for index, item in enumerate(value):
                yield from self._attesters_of_item(item, remote, f"{path}.{index}")
        else:
            yield from self._attesters_of_item(value, remote, path)

    def _attesters_of_item(
        self, value: object, remote: str | None, path: str
    ) -> Iterator[tuple[Signer, BlsKey | None]]:
        if isinstance(value, dict) and "eth" in value:
            _require_keys(value, {"eth", "bls"}, path)
            signers = self._account(value["eth"], remote, f"{path}.eth")
            keys = self._bls(value["bls"], f"{path}.bls") if "bls" in value else [None] * len(signers)
            if len(keys) != len(signers):
                raise _Issue("as many BLS keys are needed as there are Ethereum keys", path)
            yield from zip(signers, keys, strict=True)
            return
        for signer in self._accounts(value, remote, path):
            yield signer, None

    def _prover(self, value: object, remote: str | None) -> ProverKeys:
        if isinstance(value, dict) and "id" in value:
            _require_keys(value, {"id", "publisher"}, "prover")
            identity = _eth_address(value["id"], "prover.id")
            if "publisher" not in value:
                raise _Issue("Required", "prover.publisher")
            return ProverKeys(identity, self._accounts(value["publisher"], remote, "prover.publisher"))
        signers = self._account(value, remote, "prover")
        if len(signers) != 1:
            raise _Issue("must be one account", "prover")
        return ProverKeys(signers[0].address, signers)

    # ---- accounts ----------------------------------------------------------------------------

    def _signers_of(
        self, record: Mapping[str, Any], key: str, remote: str | None, path: str = ""
    ) -> tuple[Signer, ...] | None:
        return self._accounts(record[key], remote, _join(path, key)) if key in record else None

    def _accounts(self, value: object, remote: str | None, path: str) -> tuple[Signer, ...]:
        """EthAccounts."""
        if isinstance(value, list):
            if not value:
                raise _Issue("must have an account", path)
            parts = [self._account(item, remote, f"{path}.{index}") for index, item in enumerate(value)]
            return tuple(signer for part in parts for signer in part)
        if isinstance(value, dict) and "mnemonic" in value:
            return tuple(_keys_of_mnemonic(value, path))
        return self._account(value, remote, path)

    def _account(self, value: object, remote: str | None, path: str) -> tuple[Signer, ...]:
        """EthAccount: one key, but for a directory of key files."""
        if isinstance(value, str) and _PRIVATE_KEY.fullmatch(value):
            return (_key(EthKey, bytes.fromhex(value[2:]), path),)
        if isinstance(value, str) and _ETH_ADDRESS.fullmatch(value):
            if remote is None:
                raise _Issue("an address needs a remoteSigner", path)
            return (RemoteSigner(value.lower(), remote),)
        if isinstance(value, dict) and "address" in value:
            _require_keys(value, _REMOTE_KEYS | {"address"}, path)
            address, url = _eth_address(value["address"], f"{path}.address"), _remote_url(value, path) or remote
            if url is None:
                raise _Issue("an address needs a remoteSigner", path)
            return (RemoteSigner(address, url),)
        if isinstance(value, dict) and "path" in value:
            return tuple(self._key_files(value, EthKey, path))
        raise _Issue("must be a private key, an address, a remote signer's account or a key file", path)

    def _bls(self, value: object, path: str) -> list[BlsKey | None]:
        if isinstance(value, str) and _PRIVATE_KEY.fullmatch(value):
            return [_key(BlsKey, bytes.fromhex(value[2:]), path)]
        if isinstance(value, dict) and "path" in value:
            return list(self._key_files(value, BlsKey, path))
        raise _Issue("must be a BLS private key or a key file", path)

    def _key_files(self, value: Mapping[str, Any], make: Callable[[bytes], Key], path: str) -> Iterator[Key]:
        """The keys of one file, or of every key file of a directory; all have one password."""
        _require_keys(value, {"path", "password"}, path)
        name, password = value["path"], value.get("password", "")
        if not isinstance(name, str) or not name or "\0" in name:
            raise _Issue("Expected string", f"{path}.path")
        if not isinstance(password, str):
            raise _Issue("Expected string", f"{path}.password")
        file = self._directory / name
        files = _files_in(file, _KEY_FILES, "key file directory") if file.is_dir() else [file]
        if not files or len(files) > KEYS_MAX:
            raise _Issue(f"{file} has no key files, or more than {KEYS_MAX}", f"{path}.path")
        for item in files:
            try:
                secret = decrypt_key_file(_load_json(item), password)
            except OSError as error:
                raise _Issue(
                    f"key file {item} cannot be read: {system_reason(Path(item), error)}", f"{path}.path"
                ) from None
            except orjson.JSONDecodeError:
                raise _Issue(f"key file {item} is not JSON", f"{path}.path") from None
            except KeyFileError as error:
                raise _Issue(f"key file {item} cannot be decrypted: {error}", f"{path}.path") from None
            yield _key(make, secret, path)


# ---- parts ----------------------------------------------------------------------------------------


def _key(make: Callable[[bytes], Key], secret: bytes, path: str) -> Key:
    try:
        return make(secret)
    except ValueError as error:
        raise _Issue(str(error), path) from None


def _keys_of_mnemonic(value: Mapping[str, Any], path: str) -> Iterator[EthKey]:
    _require_keys(value, _MNEMONIC_KEYS, path)
    if not isinstance(value["mnemonic"], str):
        raise _Issue("Expected string", f"{path}.mnemonic")
    account, address = _index(value, "accountIndex", 0, path), _index(value, "addressIndex", 0, path)
    accounts, addresses = _index(value, "accountCount", 1, path), _index(value, "addressCount", 1, path)
    if not 1 <= accounts * addresses <= KEYS_MAX:
        raise _Issue(f"a mnemonic brings from 1 to {KEYS_MAX} keys", path)
    if account + accounts > _INDEX_MAX or address + addresses > _INDEX_MAX:
        raise _Issue("the index is too large", path)
    try:
        seed = seed_of(value["mnemonic"])
        for account_index in range(account, account + accounts):
            for address_index in range(address, address + addresses):
                yield EthKey(derive_key(seed, account=account_index, address=address_index))
    except ValueError as error:
        raise _Issue(str(error), f"{path}.mnemonic") from None


def _index(value: Mapping[str, Any], key: str, default: int, path: str) -> int:
    number = value.get(key, default)
    if type(number) is not int or not 0 <= number <= _INDEX_MAX:
        raise _Issue("must be a whole number that is not negative", f"{path}.{key}")
    return number


def _remote_signer(record: Mapping[str, Any], path: str) -> str | None:
    if "remoteSigner" not in record:
        return None
    value, path = record["remoteSigner"], _join(path, "remoteSigner")
    if isinstance(value, dict):
        _require_keys(value, _REMOTE_KEYS, path)
        url = _remote_url(value, path)
        if url is None:
            raise _Issue("Required", f"{path}.remoteSignerUrl")
        return url
    return _url(value, path)


def _remote_url(record: Mapping[str, Any], path: str) -> str | None:
    for key in ("certPath", "certPass"):
        if key in record and not isinstance(record[key], str):
            raise _Issue("Expected string", f"{path}.{key}")
    return _url(record["remoteSignerUrl"], f"{path}.remoteSignerUrl") if "remoteSignerUrl" in record else None


def _url(value: object, path: str) -> str:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise _Issue("Invalid url", path)
    return value


def _eth_address(value: object, path: str) -> str:
    if not isinstance(value, str) or _ETH_ADDRESS.fullmatch(value) is None:
        raise _Issue("Invalid Ethereum address", path)
    return value.lower()


def _aztec_address(value: object, path: str) -> str:
    if not isinstance(value, str) or _AZTEC_ADDRESS.fullmatch(value) is None:
        raise _Issue("Invalid Aztec address", path)
    return value.lower()


def _optional(record: Mapping[str, Any], key: str, read: Callable[[object, str], str], path: str) -> str | None:
    return read(record[key], _join(path, key)) if key in record else None


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Issue("Expected object", path)
    return value


def _require_keys(record: Mapping[str, Any], known: frozenset[str] | set[str], path: str) -> None:
    unknown = [key for key in record if key not in known]
    if unknown:
        names = ", ".join(f'"{name}"' if _NAME.fullmatch(name) else "one that may be a secret" for name in unknown)
        raise _Issue(f"Unrecognized key(s) in object: {names}; known are {', '.join(sorted(known))}", path)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
