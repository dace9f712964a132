"""Writes docs/settings.md from the settings table.

``python -m fastnode.config.documentation > docs/settings.md``; a test fails when the file is not current.
"""

from __future__ import annotations

import sys
from itertools import groupby

from fastnode.config.building_settings import BUILDING
from fastnode.config.needs import is_missing
from fastnode.config.network_config import NETWORK_CONFIG_SETTINGS
from fastnode.config.renamed import RENAMED
from fastnode.config.settings import Setting, Settings, rows
from fastnode.config.validator_settings import AVAILABILITY

__all__ = ["render"]

_INTRODUCTION = """\
# Settings

<!-- Made by `python -m fastnode.config.documentation`; change src/fastnode/config/settings.py instead. -->

Every setting can be given in four places. The first one that has it wins:

1. a flag: `fastnode start --node --port 8090`
2. an environment variable: `SVC_PORT=8090` (an empty one counts as not set)
3. a settings file, named by `--config FILE` or `SVC_CONFIG`: TOML, keys at the top level, named as the flags
4. the default

The configuration of a network (`--network-config FILE|URL`, JSON) comes between the file and the default;
`--network NAME` chooses one if it holds several. It gives
{network_config}.
Without one, `--network mainnet` and `--network testnet` give `l1-chain-id` and `registry-address`.

`fastnode config show` prints every value and where it came from. A bad value, an unknown key in the settings file and
an unknown environment name that begins with `SVC_` stop the start with one line. An environment name of the last column
that does not begin with `SVC_` is what the network's other nodes call the same setting; if both are set, they must
agree.

```toml
# node.toml
port = 8090
data-directory = "/var/lib/fastnode"
rpc-max-body-size = "2mb"
log-json = true
```

A setting marked *No effect* is for a part that this node does not have. It is read and checked like the others, so that
the configuration of a network's node can be kept, and shown by `nodeAdmin_getConfig`. One marked *Needs* has an effect
beside the settings that are named there. A start that is given one without effect warns in its log and names what it
would need. `fastnode start --help` shows those that people use, `--help-group l1` one group, `--help-all` every one,
with those without effect marked.
`VALIDATOR_HA_SIGNING_ENABLED=true` without `--sequencer` stops the start.

A name of the environment that is nearly one of the last column (`P2P_ENABLE`) brings a line in the log, too.

Names that Kubernetes makes for the services of a namespace (`SVC_X_SERVICE_HOST`, `SVC_X_PORT_80_TCP`, ...) are passed
over, also where one is called as a setting is: `SVC_PORT=tcp://10.0.0.1:80` is no port.

Sizes are bytes, or a number with `kb`, `mb` or `gb` (1 mb is 1,048,576 bytes). Switches are `1`, `true`, `0` or `false`
in the environment, `--log-json` or `--no-log-json` as a flag, and a TOML boolean in the file.
"""

_TABLE_HEAD = """\
| flag | default | what it does | allowed | environment |
|---|---|---|---|---|
"""

#: Text in front of a section's table.
_SECTION_NOTES = {
    BUILDING: "From the gas limits the start works out the budget of a block, which it logs; local networks and "
    "sequencers build blocks.",
    AVAILABILITY: "Redundant sequencers with the same keys take locks in one database before they sign; `fastnode "
    "migrate-ha-db` prepares it. Signers of your own take them with `fastnode.ha.duties`.",
}

#: Mark settings in their tables.
_KEPT_MARK = " *No effect*: needs {}."
_NEED_MARK = " *Needs* {}."

_RENAMED_INTRODUCTION = """\
## Names of earlier releases

These names are not read any more. In the environment one of them brings a line in the log; as a flag or in the settings
file it is an error.

| old name | what to do |
|---|---|
"""


def render() -> str:
    """The whole page."""
    given = ", ".join(f"`{name}`" for name in sorted(NETWORK_CONFIG_SETTINGS.values()))
    parts = [_INTRODUCTION.replace("{network_config}", given)]
    for section, settings in groupby(rows(Settings), key=lambda setting: setting.section):
        parts.append(f"\n## {section}\n\n")
        if section in _SECTION_NOTES:
            parts.append(f"{_SECTION_NOTES[section]}\n\n")
        parts.append(_TABLE_HEAD)
        parts.extend(_row(setting) for setting in settings)
    parts.append("\n" + _RENAMED_INTRODUCTION)
    for row in RENAMED:
        if row.environment is not None:
            parts.append(f"| `{row.environment}` | {row.environment_advice} |\n")
        if row.flag is not None:
            parts.append(f"| `{row.flag}` | {row.flag_advice} |\n")
    return "".join(parts)


def _row(setting: Setting) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (setting.flag, *setting.other_flags))
    default = setting.show(setting.default)
    environment = ", ".join(f"`{name}`" for name in setting.environment)
    cells = (
        flags,
        f"`{default}`" if default else "not set" if default is None else "empty",
        setting.help + _need_of(setting),
        setting.kind.expects_text,
        environment,
    )
    return f"| {' | '.join(cells)} |\n"


def _need_of(setting: Setting) -> str:
    if setting.needs is None:
        return ""
    return (_KEPT_MARK if is_missing(setting.needs) else _NEED_MARK).format(setting.needs.text)


if __name__ == "__main__":
    sys.stdout.write(render())
