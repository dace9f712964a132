"""Make the package's copy of the rollup's contracts on L1 from a chain to which they were deployed.

    python -m fastnode.development.l1_contracts STATE ADDRESSES OUT

STATE is what ``anvil_dumpState`` answers, ADDRESSES the JSON that says what was deployed (``rollupVersion`` and
``l1ContractAddresses``), OUT the file to write.  Code and storage stand in it as they were; for a storage key that is
a hash of an address or of the version it says of what, so that the contracts can be put under other addresses.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fastnode.protocol.ethereum import keccak_256

#: Exist on every chain, at the same address; everything else that has code was deployed.
_FIXED: Final = {"0xca11bde05977b3631167028862be2a173976ca11", "0x4e59b44847b379578588920ca78fbf26c0b4956c"}
#: Slots of a mapping, and words of a value, that are tried.
_SLOTS: Final = 64
_VALUE_WORDS: Final = 8
_WORD_BYTES: Final = 32


def main(state_file: str, addresses_file: str, out: str) -> None:
    state = json.loads(Path(state_file).read_bytes())["result"]
    accounts = json.loads(gzip.decompress(bytes.fromhex(state[2:])))["accounts"]
    deployed = json.loads(Path(addresses_file).read_bytes())
    version = int(deployed["rollupVersion"])
    coded = {address: account for address, account in accounts.items() if len(account["code"]) > len("0x00")}
    names = {address.lower(): name for name, address in deployed["l1ContractAddresses"].items()}
    placed = [address for address in coded if address not in _FIXED]
    keys = dict(_hashed_keys([*placed, *names], version))
    contracts = [
        {
            "name": names.get(address),
            "address": address,
            "code": account["code"],
            "storage": [_entry(int(key, 16), value, keys) for key, value in sorted(account["storage"].items())],
        }
        for address, account in sorted(coded.items())
        if address not in _FIXED
    ]
    fixed = {address: coded[address]["code"] for address in sorted(_FIXED & coded.keys())}
    document = {
        "version": version,
        "genesisTime": int(deployed["genesisTime"]),
        "genesisArchiveRoot": deployed["genesisArchiveRoot"],
        "names": deployed["l1ContractAddresses"],
        "contracts": contracts,
        "everywhere": fixed,
    }
    Path(out).write_bytes(lzma.compress(json.dumps(document, separators=(",", ":")).encode(), preset=9))


def _hashed_keys(addresses: list[str], version: int) -> Iterator[tuple[int, list[Any]]]:
    """Storage key -> [what is hashed, slot of the mapping, word of the value]."""
    words = {address: bytes.fromhex(address[2:]).rjust(_WORD_BYTES, b"\0") for address in addresses}
    words["version"] = version.to_bytes(_WORD_BYTES, "big")
    for name, word in words.items():
        for slot in range(_SLOTS):
            first = int.from_bytes(keccak_256(word + slot.to_bytes(_WORD_BYTES, "big")), "big")
            for offset in range(_VALUE_WORDS):
                yield first + offset, [name, slot, offset]


def _entry(key: int, value: str, keys: dict[int, list[Any]]) -> list[Any]:
    return [keys.get(key, f"{key:#x}"), f"{int(value, 16):#x}"]


if __name__ == "__main__":
    main(*sys.argv[1:])
