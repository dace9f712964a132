"""Writes docs/settings.md from the settings table.

``python -m fastnode.config.documentation > docs/settings.md``; a test fails when the file is not current.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fastnode.config.building_settings import BUILDING
from fastnode.config.config_keys import FAULT, FIVE, FOUR, NO_EFFECT, ConfigKey
from fastnode.config.former_names import RENAMED
from fastnode.config.needs import is_missing
from fastnode.config.network_config import NETWORK_CONFIG_SETTINGS
from fastnode.config.settings import Setting, Settings, rows
from fastnode.config.validator_settings import AVAILABILITY

__all__ = ["render"]

_INTRODUCTION = """\
# Settings

<!-- Made by `python -m fastnode.config.documentation`; change src/fastnode/config/settings.py instead. -->

The first of these places that has a setting wins:

1. a flag: `fastnode start --node --rpc-max-body-size 2mb`
2. an environment variable, `SVC_` and the flag in capitals: `SVC_RPC_MAX_BODY_SIZE=2mb` (an empty one is not set)
3. a settings file, named by `--config FILE` or `SVC_CONFIG`: TOML, keys at the top level, named as the flags
4. the configuration of a network (`--network-config FILE|URL`, JSON; `--network NAME` chooses one if it holds several):
   {network_config};
   without one, `--network mainnet` and `--network testnet` give `l1-chain-id` and `registry-address`
5. the default

The first column also has the names that the network's other nodes use; if two names of a setting are set, they must
agree.

```toml
# node.toml
port = 8090
data-directory = "/var/lib/fastnode"
rpc-max-body-size = "2mb"
log-json = true
```

| allowed | |
|---|---|
| numbers alone, as 0 to 9 | a whole number |
| switch | `1`, `true`, `0` or `false` in the environment; a flag `--log-json` or `--no-log-json`; a TOML boolean |
| a size | bytes, or a number with `kb`, `mb` or `gb` (1 mb is 1,048,576 bytes) |
| list | separated by commas |
| host | a name or an address, without http:// and without a port |
| URLs | http:// or https:// |
| L1 address, private keys | 0x and 40, 64 hex digits |

`fastnode config show` prints every value and where it came from. A bad value, an unknown key in the settings file and
an unknown environment name that begins with `SVC_` stop the start with one line; a name that is nearly one of the first
column (`P2P_ENABLE`) is a line in the log. Names that Kubernetes makes for services (`SVC_X_SERVICE_HOST`, also
`SVC_PORT=tcp://10.0.0.1:80`) are passed over.

A setting marked *Needs* has an effect with the settings named there only; signs (†) stand for what is said above the
table, *Always* for none. One marked *No effect* is for a part that this node does not have: it is read and checked
only. A start that is given one without effect warns in its log and names what it would need.
`fastnode start --help` shows those that people use, `--help-group l1` one group, `--help-all` every one.
"""

_TABLE_HEAD = """\
| flag | default; allowed | effect |
|---|---|---|
"""

#: Text in front of a section's table.
_SECTION_NOTES = {
    BUILDING: "From the gas limits the start works out the budget of a block, which it logs; local networks and "
    "sequencers build blocks.",
    AVAILABILITY: "Redundant sequencers with the same keys take locks in one database before they sign; `fastnode "
    "migrate-ha-db` prepares it. Signers of your own take them with `fastnode.ha.duties`.",
}

#: Words of errors about values, and what stands for them in the tables.
_SHORT = (
    ("1, true, 0 or false", "switch"),
    ("a whole number from ", ""),
    ("text that is not empty", "text"),
    ("a path", "path"),
    ("one or more texts, separated by commas", "list of texts"),
    (", in bytes or with b, kb, mb or gb", ", a size"),
    (" each, separated by commas", ", a list"),
    (", separated by commas", ", a list"),
    ("a host name or an address, without http:// and without a port", "host"),
    ("http:// or https:// URLs, a list", "URLs"),
    ("private keys, 0x and 64 hex digits, a list", "private keys"),
    ("0x and 40 hex digits", "L1 address"),
)

#: Mark settings in their tables.
_KEPT_MARK = " *No effect*: needs {}."
_NEED_MARK = " *Needs* {}."
_RELEASE_MARK = " *Refused* on a chain of a release that this node only reads."
_UNTRIED_MARK = " *Refused* on a chain of a release that this node only reads, without `--{}`."
_ALWAYS_MARK = " *Always.*"

#: Signs for needs that at least so many settings of a section have.
_SIGNS = "†‡§"
_SHARED_MIN = 3
#: Share of a section's settings whose need is said for all of them.
_COMMON_SHARE = 0.75

_RENAMED_INTRODUCTION = """\
## Names of earlier releases

These names are not read any more. In the environment one of them brings a line in the log; as a flag or in the settings
file it is an error.

| old name | what to do |
|---|---|
"""


_KEYS_INTRODUCTION = """\
## Keys of nodeAdmin_setConfig

What `nodeAdmin_setConfig` changes while the node runs, by the names of the network's nodes; `nodeAdmin_getConfig` shows
all keys but those that may hold a password. A key is refused by name, with the reason, and nothing of the call is
applied, if no part of this node reads it: because the part is off (*needs*), because it is read at the start only,
because this node does not have the part, or because the key injects faults. Sending a key with its current value is no
change and is accepted.

| key | setting | a change is |
|---|---|---|
"""

_KEYS_OF_FIVE_INTRODUCTION = """\
On a chain of release 5.x or 6.x the methods are `aztecAdmin_getConfig` and `aztecAdmin_setConfig`. They do not have the
keys {gone}; these are new or have another name:

| key | setting | a change is |
|---|---|---|
"""


def render() -> str:
    """The whole page."""
    given = ", ".join(f"`{name}`" for name in sorted(NETWORK_CONFIG_SETTINGS.values()))
    parts = [_INTRODUCTION.replace("{network_config}", given)]
    sections: dict[str, list[Setting]] = {}
    for setting in rows(Settings):
        sections.setdefault(setting.section, []).append(setting)
    for section, settings in sections.items():
        parts.append(f"\n## {section}\n\n")
        if section in _SECTION_NOTES:
            parts.append(f"{_SECTION_NOTES[section]}\n\n")
        common = _common_need(settings)
        marks = _marks_of_needs(setting for setting in settings if _need_of(setting) != common)
        notes = [f"{mark}{need}" for need, mark in marks.items()]
        if common is not None:
            notes.insert(0, f"Where nothing else is said:{common}")
        if notes:
            parts.append(" ".join(notes) + "\n\n")
        parts.append(_TABLE_HEAD)
        parts.extend(_row(setting, common, marks) for setting in settings)
    parts.append("\n" + _KEYS_INTRODUCTION)
    parts.extend(_key_row(name, key) for name, key in FOUR.keys.items())
    gone = ", ".join(f"`{key.name}`" for key in FOUR.keys.values() if key not in FIVE.keys.values())
    parts.append("\n" + _KEYS_OF_FIVE_INTRODUCTION.replace("{gone}", gone))
    parts.extend(_key_row(name, key) for name, key in FIVE.keys.items() if name not in FOUR.keys)
    parts.append("\n" + _RENAMED_INTRODUCTION)
    advice: dict[str, list[str]] = {}
    for row in RENAMED:
        if row.environment is not None:
            advice.setdefault(row.environment_advice, []).append(f"`{row.environment}`")
        if row.flag is not None:
            advice.setdefault(row.flag_advice, []).append(f"`{row.flag}`")
    parts.extend(f"| {', '.join(names)} | {what} |\n" for what, names in advice.items())
    return "".join(parts)


def _common_need(settings: Sequence[Setting]) -> str | None:
    """The need that nearly all of ``settings`` have."""
    (need, count), *_ = Counter(map(_need_of, settings)).most_common(1)
    return need if need and count >= max(_SHARED_MIN, _COMMON_SHARE * len(settings)) else None


def _marks_of_needs(settings: Iterable[Setting]) -> dict[str, str]:
    """A sign for each need that several of ``settings`` have."""
    counts = Counter(need for setting in settings if (need := _need_of(setting)))
    return dict(zip((need for need, count in counts.most_common() if count >= _SHARED_MIN), _SIGNS, strict=False))


def _row(setting: Setting, common: str | None, marks: Mapping[str, str]) -> str:
    names = ", ".join(f"`{name}`" for name in (setting.flag, *setting.other_flags, *setting.other_environment))
    default = setting.show(setting.default)
    shown = f"`{default}`" if default else "none" if default is None else "empty"
    allowed = _allowed(setting.kind.expects_text)
    values = f"{shown}; {allowed}" if allowed else shown
    need = _need_of(setting)
    if common is not None:
        need = "" if need == common else need or _ALWAYS_MARK
    return f"| {names} | {values} | {setting.help}{f' {marks[need]}' if need in marks else need} |\n"


def _key_row(name: str, key: ConfigKey) -> str:
    setting = "" if key.setting is None else f"`{key.setting.flag}`"
    return f"| `{name}` | {setting} | {_effect_of(key)} |\n"


def _effect_of(key: ConfigKey) -> str:
    if key.refusal == FAULT:
        return "refused: injects a fault"
    if key.refusal:
        return f"refused: {key.refusal.removeprefix(NO_EFFECT)}"
    if key.is_fixed:
        assert key.setting is not None
        return f"refused: set `{key.setting.environment[-1]}` and start the node again"
    need = "" if key.needs is None else f"; needs {key.needs.text}"
    return "; ".join(dict.fromkeys(reader.effect for reader in key.readers)) + need


def _allowed(text: str) -> str:
    """``text`` of an error, in the words of the introduction."""
    for words, short in _SHORT:
        text = text.replace(words, short)
    return text


def _need_of(setting: Setting) -> str:
    release = _RELEASE_MARK if setting.whole_release else ""
    if setting.untried:
        release = _UNTRIED_MARK.format(setting.untried.replace("_", "-"))
    if setting.needs is None:
        return release
    return release + (_KEPT_MARK if is_missing(setting.needs) else _NEED_MARK).format(setting.needs.text)


if __name__ == "__main__":
    sys.stdout.write(render())
