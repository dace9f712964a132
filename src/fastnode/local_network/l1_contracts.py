"""The rollup's contracts on a test chain of L1: put there under addresses of this network, without a deployment.

The package has code and storage of one deployment.  Each contract gets the address that the network names (libraries
one that follows from it), and wherever the deployment's addresses, its version, its times or its genesis stand in code
or storage, this network's are written: what comes out is what deploying them for this network would have left.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, Final

from fastnode.kernels import encode
from fastnode.outgoing.client import RpcCall
from fastnode.protocol.ethereum import keccak_256
from fastnode.records import dataclass
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, hex_data

__all__ = ["NewContracts", "contract_names"]

#: keccak256("aztec.time.storage"): genesis time (16 bytes, lowest), slot duration, epoch duration and epochs for a
#: proof (4 bytes each) of the rollup.
_TIME_SLOT: Final = int.from_bytes(keccak_256(b"aztec.time.storage"), "big")
_PROOF_EPOCHS: Final = 1
_VERSION_BYTES: Final = 4


@cache
def _document() -> dict[str, Any]:
    """Made from a deployment by the tool of the same name among those for development."""
    packed = (resources.files("fastnode") / "data" / "l1_contracts.json.xz").read_bytes()
    document: dict[str, Any] = json.loads(lzma.decompress(packed))
    return document


def contract_names() -> tuple[str, ...]:
    """The contracts that a node names in ``l1ContractAddresses``."""
    return tuple(_document()["names"])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContracts:
    """The contracts of one network.  ``addresses`` by the names of :func:`contract_names`; durations in seconds, and
    slots for epochs."""

    addresses: Mapping[str, str]
    version: int
    genesis_time: int
    slot_duration: int
    epoch_duration: int
    genesis_archive_root: bytes

    def calls(self) -> Iterator[RpcCall]:
        """Calls that put the contracts on an anvil."""
        document = _document()
        moved = self._moved(document)
        for address, code in document["everywhere"].items():
            yield "anvil_setCode", [address, code]
        for contract in document["contracts"]:
            old = encode.from_hex(contract["address"])
            address = hex_data(moved[old])
            code = _with(encode.from_hex(contract["code"]), moved)
            versions = {_word(document["version"]): _word(self.version)}
            yield "anvil_setCode", [address, hex_data(_with(code, versions))]
            for key, value in contract["storage"]:
                word = self._value(document, key, int(value, 16), moved)
                yield "anvil_setStorageAt", [address, hex_data(_word(self._key(key, moved))), hex_data(word)]

    def _moved(self, document: Mapping[str, Any]) -> dict[bytes, bytes]:
        """New address of each contract of the recorded deployment, by its old one."""
        moved = {
            encode.from_hex(old): encode.from_hex(self.addresses[name])
            for name, old in document["names"].items()
            if int(self.addresses.get(name, "0x0"), 16)
        }
        rollup = encode.from_hex(self.addresses["rollupAddress"])
        for contract in document["contracts"]:
            old = encode.from_hex(contract["address"])
            moved.setdefault(old, sha256(rollup + old).digest()[:ADDRESS_BYTES])
        return moved

    def _key(self, key: str | list[Any], moved: Mapping[bytes, bytes]) -> int:
        if isinstance(key, str):
            return int(key, 16)
        of, slot, offset = key
        hashed = _word(self.version) if of == "version" else moved[encode.from_hex(of)].rjust(WORD_BYTES, b"\0")
        return int.from_bytes(keccak_256(hashed + _word(slot)), "big") + int(offset)

    def _value(
        self, document: Mapping[str, Any], key: str | list[Any], value: int, moved: Mapping[bytes, bytes]
    ) -> bytes:
        if isinstance(key, str) and int(key, 16) == _TIME_SLOT:
            durations = self.slot_duration | self.epoch_duration << 32 | _PROOF_EPOCHS << 64
            return _word(durations << 128 | self.genesis_time)
        version = document["version"].to_bytes(_VERSION_BYTES, "big")
        genesis = encode.from_hex(document["genesisArchiveRoot"])
        changes = {version: self.version.to_bytes(_VERSION_BYTES, "big"), genesis: self.genesis_archive_root}
        return _with(_with(_word(value), moved), changes)


def _word(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "big")


def _with(data: bytes, changes: Mapping[bytes, bytes]) -> bytes:
    for old, new in changes.items():
        data = data.replace(old, new)
    return data
