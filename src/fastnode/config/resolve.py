"""Finds the value of every setting: flag, then environment, then settings file, then network, then default.

Everything that is wrong raises :class:`~fastnode.errors.SettingError` with one line that names the
setting, the value and what is allowed; nothing is guessed and nothing unknown is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from fastnode.config.former_names import RENAMED, advice_for_environment, advice_for_flag
from fastnode.config.network_config import read_network_config, recorded_network
from fastnode.config.settings import ENVIRONMENT_PREFIX, Setting, rows
from fastnode.errors import SettingError
from fastnode.files import system_reason
from fastnode.records import dataclass
from fastnode.values.refusal import Reject, nearest
from fastnode.values.texts import FileOrUrl

__all__ = ["CONFIG_ENVIRONMENT", "Origin", "Resolved", "resolve"]

#: Names the settings file; a setting of the command line alone, so not part of the table.
CONFIG_ENVIRONMENT = ENVIRONMENT_PREFIX + "CONFIG"

#: Characters of a bad value that an error repeats.
_SHOWN_VALUE_MAX = 80

#: From which likeness on, as difflib counts it, a name of the environment is thought to be meant for another one.
_MISSPELT: Final = 0.92
_MISSPELT_LENGTHS: Final = 2

#: Letters of a last word that may be short for a longer one.
_ABBREVIATION_MIN: Final = 3
#: Prefixes that the environment names of settings do not have, and that people give them.
_OTHER_PREFIXES: Final = ("FASTNODE_", "AZTEC_")

#: Names that Kubernetes adds to the environment of a pod for each service of its namespace: a service that is called
#: svc-... makes names that begin with our prefix.
_SERVICE_LINK: Final = re.compile(
    ENVIRONMENT_PREFIX
    + r"(?:[A-Z0-9_]+_)?"
    + r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)",
    re.ASCII,
)
#: Values of such names that end in _PORT, which may be those of settings: they are no numbers.
_SERVICE_LINK_VALUE: Final = re.compile(r"(?:tcp|udp|sctp)://[0-9A-Fa-f.:\[\]]+:[0-9]+", re.ASCII)

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of a value: ``layer`` is flag, environment, file, network or default."""

    layer: str
    name: str  # the flag, the environment name, the path; empty for a default

    def __str__(self) -> str:
        return f"{self.layer} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Resolved(Generic[Table]):
    values: Table
    origins: Mapping[str, Origin]  # by name of the setting
    warnings: tuple[str, ...]  # lines the start should log


def resolve(
    table: type[Table],
    *,
    flags: Mapping[str, str],
    environment: Mapping[str, str],
    config_file: Path | None,
) -> Resolved[Table]:
    """``flags`` are the texts given on the command line, by name of the setting."""
    settings = rows(table)
    environment = {name: value for name, value in environment.items() if not _is_service_link(name, value)}
    _refuse_unknown_environment(settings, environment)
    documents = []
    if config_file is not None:
        documents.append(_Document("file", str(config_file), _read_file(config_file, settings)))
    found = {setting.name: _find(setting, flags, environment, documents) for setting in settings}
    network_config, network = (found.get(name, (None, None))[0] for name in ("network-config", "network"))
    if network_config is not None:
        values_of_network = read_network_config(network_config, network)
        documents.append(_Document("network", FileOrUrl().to_text(network_config), values_of_network))
    elif network is not None:
        documents.append(_Document("network", network, recorded_network(network)))
    if network_config is not None or network is not None:
        found = {setting.name: _find(setting, flags, environment, documents) for setting in settings}
    values = {setting.attribute: found[setting.name][0] for setting in settings}
    origins = {name: origin for name, (_, origin) in found.items()}
    warnings = (*_renamed_warnings(environment), *_misspelt_warnings(settings, environment))
    return Resolved(table(**values), origins, warnings)


@dataclass(frozen=True, slots=True)
class _Document:
    """Values by the names of settings, from a file."""

    layer: str
    path: str
    values: Mapping[str, object]


def _find(
    setting: Setting, flags: Mapping[str, str], environment: Mapping[str, str], documents: Iterable[_Document]
) -> tuple[Any, Origin]:
    if setting.name in flags:
        text = flags[setting.name]
        try:
            return setting.kind.from_text(text), Origin("flag", setting.flag)
        except Reject as refusal:
            raise _bad_value(setting, setting.flag, text, refusal) from None
    name = _environment_name(setting, environment)
    if name is not None:
        try:
            return setting.kind.from_text(environment[name]), Origin("environment", name)
        except Reject as refusal:
            raise _bad_value(setting, name, environment[name], refusal) from None
    for document in documents:
        if setting.name not in document.values:
            continue
        value = document.values[setting.name]
        try:
            return setting.kind.from_toml(value), Origin(document.layer, document.path)
        except Reject as refusal:
            raise _bad_value(setting, f"{setting.name} in {document.path}", value, refusal) from None
    return setting.default, Origin("default", "")


def _bad_value(setting: Setting, where: str, value: object, refusal: Reject) -> SettingError:
    if refusal.is_specific and not setting.secret:
        return SettingError(f"{where}: {refusal.reason}")
    shown = "(secret)" if setting.secret else repr(value)
    if len(shown) > _SHOWN_VALUE_MAX:
        shown = shown[:_SHOWN_VALUE_MAX] + "..."
    return SettingError(f"{where}: bad value {shown}; allowed: {setting.kind.expects_text}")


def _is_service_link(name: str, value: str) -> bool:
    if not name.startswith(ENVIRONMENT_PREFIX):
        return False
    if name.endswith("_PORT") and _SERVICE_LINK_VALUE.fullmatch(value):
        return True
    return _SERVICE_LINK.fullmatch(name) is not None


def _environment_name(setting: Setting, environment: Mapping[str, str]) -> str | None:
    """The name under which the setting is set.  An empty variable counts as not set: compose files and
    charts pass every variable on, filled or not."""
    names = [name for name in setting.environment if environment.get(name)]
    if len({environment[name] for name in names}) > 1:
        raise SettingError(f"{' and '.join(names)} are the same setting and have different values; set one of them")
    return names[0] if names else None


def _refuse_unknown_environment(settings: Iterable[Setting], environment: Mapping[str, str]) -> None:
    known = {name for setting in settings for name in setting.environment} | {CONFIG_ENVIRONMENT}
    known |= {row.environment for row in RENAMED if row.environment is not None}
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            raise SettingError(
                f"unknown environment variable {name}{nearest(name, known)}; "
                f"names that begin with {ENVIRONMENT_PREFIX} are fastnode's settings"
            )


def _read_file(path: Path, settings: Iterable[Setting]) -> dict[str, object]:
    import tomllib  # on demand: few starts have a settings file

    try:
        document: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"settings file {path} cannot be read: {system_reason(path, error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"settings file {path} is not TOML: {error}") from None
    known = {setting.name for setting in settings}
    for key, value in document.items():
        if key in known:
            continue
        advice = advice_for_flag(f"--{key}")
        if advice is not None:
            raise SettingError(f"{key} in {path} is not a setting any more; {advice}")
        if isinstance(value, dict):
            raise SettingError(f"unknown table [{key}] in {path}; settings stand at the top level, named as the flags")
        raise SettingError(f"unknown setting {key!r} in {path}{nearest(key, known)}")
    return document


def _renamed_warnings(environment: Mapping[str, str]) -> Iterable[str]:
    for row in RENAMED:
        if row.environment is not None and environment.get(row.environment):
            yield f"{row.environment} is set but not read any more; {advice_for_environment(row.environment)}"


def _misspelt_warnings(settings: Iterable[Setting], environment: Mapping[str, str]) -> Iterable[str]:
    """For the names that we share with other nodes, which have no prefix by which an unknown one could be refused."""
    shared = {name for setting in settings for name in setting.other_environment}
    read = shared | {row.environment for row in RENAMED}
    own = {name for setting in settings for name in setting.environment} | {CONFIG_ENVIRONMENT}
    for name in sorted(environment):
        if "_" in name and name not in read and not name.startswith(ENVIRONMENT_PREFIX) and environment[name]:
            meant = _meant_by(name, own, shared)
            if meant:
                yield f"{name} is set, and no setting is called so{meant}"


def _meant_by(name: str, own: Collection[str], shared: Collection[str]) -> str:
    """The suggestion for a name that no setting has; empty if none is near."""
    for prefix in _OTHER_PREFIXES:
        if name.startswith(prefix):
            with_own_prefix = ENVIRONMENT_PREFIX + name.removeprefix(prefix)
            found = with_own_prefix if with_own_prefix in own else _completed(with_own_prefix, own)
            return f" (did you mean {found}?)" if found else ""
    found = _completed(name, shared)
    if found:
        return f" (did you mean {found}?)"
    return nearest(name, [other for other in shared if _begins_or_ends_alike(name, other)], _MISSPELT)


def _completed(name: str, known: Iterable[str]) -> str | None:
    """The name whose last word begins with the last word of ``name``: DATA_DIRECTORY for DATA_DIR."""
    head, _, last = name.rpartition("_")
    if not head or len(last) < _ABBREVIATION_MIN:
        return None
    return next((other for other in sorted(known) if other.startswith(name) and "_" not in other[len(name) :]), None)


def _begins_or_ends_alike(name: str, other: str) -> bool:
    """Spares nearly all comparisons of whole names."""
    return abs(len(name) - len(other)) <= _MISSPELT_LENGTHS and (name[:5] == other[:5] or name[-5:] == other[-5:])
