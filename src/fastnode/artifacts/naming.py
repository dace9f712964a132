"""Names of what a transaction did: contracts, functions with their arguments, events, slots of storage, assertions.

One :class:`Naming` serves one answer, over one view of the chain.  It is for threads beside the event loop: artifacts
are read from files, and slots of maps are found by hashing the keys that may have led to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fastnode.kernels import encode, poseidon2
from fastnode.log_index.contracts import contract_class_id_at
from fastnode.protocol.artifacts import Artifact, Member, decode_fields
from fastnode.protocol.constants import SEPARATOR_PUBLIC_LEAF_SLOT, SEPARATOR_PUBLIC_STORAGE_MAP_SLOT
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, field_from_int, hex_text

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.protocol.releases import Release

__all__ = ["Naming"]

#: Values that are tried as keys of maps, those that are tried in pairs, and hashes that are worked out for one answer:
#: each takes some 2.5 us.
KEYS_MAX: Final = 32
PAIRED_KEYS_MAX: Final = 8
HASHES_MAX: Final = 4_096
#: Slots of one variable that are named by their place in it.
OFFSETS_MAX: Final = 8
#: Contracts whose artifacts are looked for in one answer.
CONTRACTS_MAX: Final = 256
_SELECTOR_BYTES: Final = 4
_MODULUS_BYTES: Final = MODULUS.to_bytes(FIELD_BYTES, "big")
_MAP_SLOT: Final = field_from_int(SEPARATOR_PUBLIC_STORAGE_MAP_SLOT)
_LEAF_SLOT: Final = field_from_int(SEPARATOR_PUBLIC_LEAF_SLOT)


def _nameless(_selector: bytes) -> None:
    return None


class Naming:
    """``name_of`` tells the names of functions that clients have registered by their selectors alone.

    ``registered_only``: artifacts that come with fastnode do not count, so that an answer in which a published node has
    no names is the same here until somebody registers some.
    """

    def __init__(
        self,
        store: ArtifactStore,
        chain: ChainView,
        name_of: Callable[[bytes], str | None] = _nameless,
        *,
        registered_only: bool = False,
    ) -> None:
        self._find = store.find_registered if registered_only else store.find
        self._chain = chain
        self._name_of = name_of
        self._artifacts: dict[bytes, Artifact | None] = {}
        self._slots: dict[bytes, dict[bytes, str]] = {}
        self._keys: dict[bytes, None] = {}
        self._hashes_left = HASHES_MAX

    @property
    def release(self) -> Release:
        """The release of the chain."""
        return self._chain.chain.release

    def artifact_of(self, address: bytes) -> Artifact | None:
        """The artifact of the class that the contract has at the newest block; None if it is not known."""
        if address not in self._artifacts:
            if len(self._artifacts) >= CONTRACTS_MAX:
                return None
            newest = self._chain.block_info(self._chain.tip_number)
            class_id = None if newest is None else contract_class_id_at(self._chain, address, newest.timestamp)
            self._artifacts[address] = None if class_id is None else self._find(class_id)
        return self._artifacts[address]

    def artifact_of_class(self, class_id: bytes) -> Artifact | None:
        return self._find(class_id)

    def name_of_class(self, class_id: bytes) -> str | None:
        artifact = self.artifact_of_class(class_id)
        return None if artifact is None else artifact.name

    def contract(self, address: bytes) -> str | None:
        """Name of the contract at ``address``."""
        artifact = self.artifact_of(address)
        return None if artifact is None else artifact.name

    # ---- calls -----------------------------------------------------------------------------------

    def function(self, address: bytes, selector: bytes) -> str | None:
        artifact = self.artifact_of(address)
        found = None if artifact is None else artifact.functions.get(selector)
        return self._name_of(selector) if found is None else found.name

    def of_call(self, address: bytes, calldata: bytes, output: bytes, *, success: bool) -> dict[str, Any]:
        """Members of a call of which the names are known: ``contractName``, ``functionName``, ``arguments``,
        ``returnValue``, ``assertion``."""
        members: dict[str, Any] = {}
        artifact = self.artifact_of(address)
        selector = calldata[FIELD_BYTES - _SELECTOR_BYTES : FIELD_BYTES]
        if artifact is None:
            name = self._name_of(selector) if selector else None
            return {} if name is None else {"functionName": name}
        members["contractName"] = artifact.name
        name = self.function(address, selector) if selector else None
        if name is not None:
            members["functionName"] = name
        function = artifact.functions.get(selector)
        if function is not None:
            arguments = decode_fields(function.parameters, calldata[FIELD_BYTES:])
            if arguments is not None:
                members["arguments"] = arguments
            if success and function.return_type is not None:
                returned = decode_fields([Member("", function.return_type)], output)
                if returned is not None:
                    members["returnValue"] = returned[0]["value"]
        if not success and (assertion := self.assertion(address, output)) is not None:
            members["assertion"] = assertion
        return members

    def assertion(self, address: bytes, output: bytes) -> str | None:
        """Text of the assertion that ended a call with this output."""
        artifact = self.artifact_of(address)
        if artifact is None or len(output) < FIELD_BYTES:
            return None
        return artifact.errors.get(int.from_bytes(output[:FIELD_BYTES], "big"))

    # ---- logs ------------------------------------------------------------------------------------

    def of_log(self, address: bytes, fields: bytes) -> dict[str, Any]:
        """``eventName`` and ``arguments`` of a public log, whose last field is the selector of the event."""
        artifact = self.artifact_of(address)
        if artifact is None or not artifact.events or len(fields) < FIELD_BYTES:
            return {}
        event = artifact.events.get(int.from_bytes(fields[-FIELD_BYTES:], "big"))
        if event is None:
            return {}
        decoded = decode_fields(event.fields, fields[:-FIELD_BYTES])
        return {"eventName": event.name} | ({} if decoded is None else {"arguments": decoded})

    def log_record(self, record: dict[str, Any]) -> dict[str, Any]:
        """A public log as node_getPublicLogs has it, with ``contractName``, and what :meth:`of_log` tells."""
        log = record["log"]
        address = encode.from_hex(log["contractAddress"])
        name = self.contract(address)
        if name is None:
            return record
        fields = b"".join(map(encode.from_hex, log["fields"]))
        return record | {"contractName": name} | self.of_log(address, fields)

    # ---- storage ---------------------------------------------------------------------------------

    def note_keys(self, values: Iterable[bytes]) -> None:
        """Values, such as arguments and senders, that may be keys of maps.  Before the first slot is asked for."""
        for value in values:
            if len(self._keys) >= KEYS_MAX:
                return
            if any(value) and value < _MODULUS_BYTES:
                self._keys[value] = None

    def slot(self, address: bytes, slot: bytes) -> str | None:
        """Name of a slot of public storage: ``admin``, ``balances[0x12..]``."""
        return self._slots_of(address).get(slot)

    def leaf_slots(self, addresses: Iterable[bytes]) -> dict[bytes, tuple[bytes, str]]:
        """Leaf slots of the public data tree that are known by name: the contract, and the name of the slot."""
        found = {}
        for address in addresses:
            names = dict(islice(self._slots_of(address).items(), self._hashes_left))
            if names:
                self._hashes_left -= len(names)
                joined = b"".join(_LEAF_SLOT + address + slot for slot in names)
                for leaf, name in zip(_split(poseidon2.hash_leaves_3(joined)), names.values(), strict=True):
                    found[leaf] = address, name
        return found

    def _slots_of(self, address: bytes) -> dict[bytes, str]:
        found = self._slots.get(address)
        if found is None:
            artifact = self.artifact_of(address)
            found = self._slots[address] = {} if artifact is None else self._name_slots(artifact)
        return found

    def _name_slots(self, artifact: Artifact) -> dict[bytes, str]:
        bases = sorted((slot, name) for name, slot in artifact.storage.items())
        names: dict[bytes, str] = {}
        for place, (slot, name) in enumerate(bases):
            end = bases[place + 1][0] if place + 1 < len(bases) else slot + 1
            for offset in range(min(end - slot, OFFSETS_MAX)):
                names[field_from_int(slot + offset)] = f"{name}+{offset}" if offset else name
        keys = list(self._keys)
        entries = self._entries({field_from_int(slot): name for slot, name in bases}, keys[:PAIRED_KEYS_MAX])
        names |= entries | self._entries({field_from_int(slot): name for slot, name in bases}, keys[PAIRED_KEYS_MAX:])
        return names | self._entries(entries, keys[:PAIRED_KEYS_MAX])  # maps of maps

    def _entries(self, maps: dict[bytes, str], keys: list[bytes]) -> dict[bytes, str]:
        """Slots of the entries that maps at these slots have for these keys."""
        keys = keys[: self._hashes_left // len(maps)] if maps else []
        if not keys:
            return {}
        self._hashes_left -= len(maps) * len(keys)
        joined = b"".join(_MAP_SLOT + slot + key for slot in maps for key in keys)
        labels = [f"{name}[{_key_text(key)}]" for name in maps.values() for key in keys]
        return dict(zip(_split(poseidon2.hash_leaves_3(joined)), labels, strict=True))


def _key_text(key: bytes) -> str:
    number = int.from_bytes(key, "big")
    return str(number) if number >> 64 == 0 else hex_text(key)


def _split(joined: bytes) -> list[bytes]:
    return [joined[at : at + FIELD_BYTES] for at in range(0, len(joined), FIELD_BYTES)]
