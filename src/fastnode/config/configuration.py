"""Values of nodeAdmin_getConfig and nodeAdmin_setConfig: the configuration of a running node.

The keys, who reads them and why others are refused: :mod:`fastnode.config.config_keys`.  A part of the node attaches as
a :class:`~fastnode.config.config_keys.Reader` and gets the values of the keys that the table gives this reader, and no
other; the node accepts a new value of exactly the keys that an attached part reads.

null removes a value: the key has the value again that it has where nothing sets it.  No change survives the process: a
start reads the settings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from fastnode.config.config_keys import FIVE, FOUR, KEYS_BY_NAME, ConfigKey, KeySet, Reader, keys_of
from fastnode.config.settings import Settings
from fastnode.errors import ValueRefused
from fastnode.log import log_facts
from fastnode.values.refusal import Reject, describe, nearest
from fastnode.values.schemas import Schema, object_of
from fastnode.values.value_type import NamedType, ValueType, read_member

__all__ = ["ConfigPatch", "ConfigPatchOfFive", "ConfigView", "NodeConfiguration", "configuration_schema"]

logger = logging.getLogger(__name__)

#: Key whose value has the node's own validators too.
_NEVER: Final = "slashValidatorsNever"

#: ``apply(view, names)``: apply the new values of these keys.  Must not fail.
Apply = Callable[["ConfigView", frozenset[str]], None]


class ConfigView:
    """The current values of the keys that one part of the node reads; KeyError for a key of another part."""

    def __init__(self, configuration: NodeConfiguration, reader: Reader) -> None:
        self._configuration = configuration
        self._names = frozenset(key.name for key in keys_of(reader))
        self.reader = reader

    @property
    def names(self) -> frozenset[str]:
        return self._names

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(f"{name} is not a key of the reader {self.reader.name}")
        return self._configuration[name]


class NodeConfiguration:
    """The values of one running node.  Usable from any thread.

    ``initial`` replaces values of settings that the chain decides, ``unset`` is what a key falls back to that is
    set to null.  ``limits``: the most that the network allows for a key; a value above it is capped.  ``stand_ins``:
    what getConfig shows of a key that is not set and that a release always shows.
    """

    def __init__(
        self,
        settings: Settings,
        initial: Mapping[str, Any] | None = None,
        *,
        unset: Mapping[str, Any] | None = None,
        limits: Mapping[str, int] | None = None,
        stand_ins: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = settings
        self._unset = {key.name: key.default for key in KEYS_BY_NAME.values()} | dict(unset or {})
        # The network's nodes have an empty name here instead of none.
        self._stand_ins = {"nodeId": ""} | dict(stand_ins or {})
        self._limits = dict(limits or {})
        values = {
            key.name: key.default if key.setting is None else getattr(settings, key.setting.attribute)
            for key in KEYS_BY_NAME.values()
        } | dict(initial or {})
        self._values: dict[str, Any] = {name: self._capped(name, value) for name, value in values.items()}
        #: Validators of this node's keystore, since its start.
        self._own_validators: tuple[str, ...] = ()
        self._attached: list[tuple[ConfigView, Apply | None]] = []
        self._lock = threading.Lock()

    def attach(self, reader: Reader, apply: Apply | None = None) -> ConfigView:
        """Values of the reader's keys for a part of the node; ``apply`` is called after each change of any of them.
        None: the part reads them at each use."""
        view = ConfigView(self, reader)
        with self._lock:
            self._attached.append((view, apply))
        return view

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        if name != _NEVER or self._values["slashSelfAllowed"]:
            return value
        return tuple(dict.fromkeys((*value, *self._own_validators)))

    def replace_validators(self, addresses: Iterable[str]) -> None:
        """Set the addresses of the node's own validators: those of its keystore.  The node votes against none of them,
        nor against those of before, unless slashSelfAllowed is set."""
        with self._lock:
            addresses = tuple(addresses)
            self._own_validators = tuple(dict.fromkeys((*self._own_validators, *addresses)))
            self._values = self._values | {"validatorAddresses": addresses}

    def describe(self, keys: KeySet = FOUR) -> dict[str, Any]:
        """Values that getConfig answers to clients of a release: without secrets and what is not set."""
        shown = {name: (key, self._shown(name, key, keys)) for name, key in keys.keys.items() if not key.is_secret}
        return {name: key.kind.to_json(value) for name, (key, value) in shown.items() if value is not None}

    def _shown(self, name: str, key: ConfigKey, keys: KeySet) -> Any:
        value = self[key.name]
        return self._stand_ins.get(key.name) if value is None and name in keys.always_shown else value

    def change(self, new: Mapping[str, Any], keys: KeySet = FOUR) -> None:
        """Merge values that :class:`ConfigPatch` has read.  ValueRefused, and no value changed, if one of them is of a
        key that cannot change here.  A value that getConfig shows is no change."""
        with self._lock:
            wanted = {name: self._unset[name] if value is UNSET else value for name, value in new.items()}
            capped = {name: self._capped(name, value) for name, value in wanted.items()}
            changed = {name: value for name, value in capped.items() if not self._is_current(name, value, keys)}
            for name in changed:
                self._require_changeable(KEYS_BY_NAME[name], keys)
            self._require_order(self._values | changed)
            self._values = self._values | changed
            self._apply(frozenset(changed))

    def _is_current(self, name: str, value: Any, keys: KeySet) -> bool:
        key = KEYS_BY_NAME[name]
        return value in (self._values[name], self[name], self._shown(keys.name_of(key), key, keys))

    def _capped(self, name: str, value: Any) -> Any:
        limit = self._limits.get(name)
        if limit is None or value is None or value <= limit:
            return value
        logger.warning(
            "a value is capped at the limit of a checkpoint", extra=log_facts(key=name, value=value, limit=limit)
        )
        return limit

    def _require_changeable(self, key: ConfigKey, keys: KeySet) -> None:
        reason = key.refusal_of(self._settings)
        if reason is None and not any(key.name in view.names for view, _ in self._attached):
            reason = "is read by a part of this node that has not started yet; try again once the node serves"
        if reason is not None:
            raise ValueRefused(f"Invalid params: config.{keys.name_of(key)} (parameter 1) {reason}")

    def _require_order(self, values: Mapping[str, Any]) -> None:
        if values["slashMinPenaltyPercentage"] > values["slashMaxPenaltyPercentage"]:
            raise ValueRefused(
                "Invalid params: config.slashMinPenaltyPercentage (parameter 1) must not be above "
                "slashMaxPenaltyPercentage"
            )

    def _apply(self, changed: frozenset[str]) -> None:
        if not changed:
            return
        for view, apply in self._attached:
            if apply is not None and view.names & changed:
                apply(view, view.names & changed)
        logger.info("configuration changed", extra=log_facts(keys=" ".join(sorted(changed))))


def _read(name: str, key: ConfigKey, item: object) -> Any:
    if item == "" and key.kind.is_unset_by_empty_text:
        return None
    try:
        return read_member(key.kind, item, name)
    except Reject:
        if key.is_secret:
            raise Reject(f"must be {key.kind.expects}, got (secret)", f".{name}") from None
        raise


#: In place of a value: the key goes back to what it is without one.
UNSET: Final = object()


class ConfigPatch(NamedType):
    """The parameter of setConfig: any subset of the keys of a release.  Gives their values by the node's own names,
    read and checked; UNSET for null."""

    __slots__ = ()

    component = "PartialAztecNodeAdminConfig"
    name = "Partial<AztecNodeAdminConfig>"
    expects = "an object with keys of the configuration"
    keys: ClassVar[KeySet] = FOUR

    def from_json(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(value)
        patch: dict[str, Any] = {}
        for name, item in value.items():
            key = self.keys.keys.get(name)
            if key is None:
                raise Reject(f"has an unknown key {describe(name)}{nearest(name, self.keys.keys)}")
            patch[key.name] = UNSET if item is None else _read(name, key, item)
        return patch

    def definition(self) -> Schema:
        keys = self.keys.keys
        return object_of({name: _described(key, {"anyOf": _taken(key)}) for name, key in keys.items()}, closed=True)

    def parts(self) -> Iterable[ValueType]:
        return (key.kind for key in self.keys.keys.values())


class ConfigPatchOfFive(ConfigPatch):
    """The parameter of setConfig of 5.x."""

    __slots__ = ()

    component = "PartialAztecNodeAdminConfigV5"
    name = "Partial<AztecNodeAdminConfigV5>"
    keys = FIVE


def configuration_schema(keys: KeySet = FOUR) -> Schema:
    """AztecNodeAdminConfig, what getConfig answers: without secrets, and without what is not set."""
    shown = {name: key for name, key in keys.keys.items() if not key.is_secret}
    return {
        "type": "object",
        "description": "The configuration, by the names of other nodes, without what is not set and what is secret.",
        "properties": {name: _described(key, key.kind.schema_shown()) for name, key in shown.items()},
        "required": [name for name, key in shown.items() if key.default is not None or name in keys.always_shown],
    }


def _taken(key: ConfigKey) -> list[Schema]:
    """null takes a value away, and so does an empty text where no text is empty."""
    unset: list[Schema] = [{"const": ""}] if key.kind.is_unset_by_empty_text else []
    return [key.kind.schema(), *unset, {"type": "null"}]


def _described(key: ConfigKey, schema: Schema) -> Schema:
    sentences = [] if key.setting is None else [key.setting.help]
    if key.is_fixed:
        sentences.append("Cannot change while the node runs.")
    elif key.refusal:
        sentences.append("Cannot be set: no part of this node reads it.")
    return {**schema, "description": " ".join(sentences)} if sentences else schema
