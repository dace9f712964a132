"""The four layers of the settings, where a value came from, and what stops the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.config.examples import as_toml, examples

from fastnode.config.documentation import render
from fastnode.config.former_names import RENAMED
from fastnode.config.resolve import Origin, Resolved, resolve
from fastnode.config.settings import Setting, Settings, rows, setting
from fastnode.errors import SettingError
from fastnode.values.choices import Choice

ROWS = rows(Settings)


def resolved(
    flags: dict[str, str] | None = None, environment: dict[str, str] | None = None, file: Path | None = None
) -> Resolved[Settings]:
    return resolve(Settings, flags=flags or {}, environment=environment or {}, config_file=file)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(row: Setting, tmp_path: Path) -> None:
    in_flag, in_environment, in_file = examples(row)
    file = tmp_path / "node.toml"
    file.write_text(as_toml(row, in_file))

    def found(**layers: object) -> tuple[object, Origin]:
        result = resolved(**layers)  # type: ignore[arg-type]
        return getattr(result.values, row.attribute), result.origins[row.name]

    flags, environment = {row.name: in_flag}, {row.environment[0]: in_environment}
    value, origin = found(flags=flags, environment=environment, file=file)
    assert (value, origin) == (row.kind.from_text(in_flag), Origin("flag", row.flag))
    value, origin = found(environment=environment, file=file)
    assert (value, origin) == (row.kind.from_text(in_environment), Origin("environment", row.environment[0]))
    value, origin = found(file=file)
    assert (value, origin) == (row.kind.from_text(in_file), Origin("file", str(file)))
    value, origin = found()
    assert (value, origin) == (row.default, Origin("default", ""))


@pytest.mark.parametrize("row", [row for row in ROWS if row.other_environment], ids=lambda row: row.name)
def test_a_setting_is_found_under_its_other_environment_names(row: Setting) -> None:
    for name in row.other_environment:
        result = resolved(environment={name: examples(row)[0]})
        assert getattr(result.values, row.attribute) == row.kind.from_text(examples(row)[0])
        assert result.origins[row.name] == Origin("environment", name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_default_is_a_value_that_the_setting_allows(row: Setting) -> None:
    if row.default is not None:
        assert row.kind.from_text(row.kind.to_text(row.default)) == row.default


@pytest.mark.parametrize(
    ("flags", "environment", "text", "line"),
    [
        ({"port": "80a"}, {}, "", "--port: bad value '80a'; allowed: a whole number from 0 to 65535"),
        ({}, {"SVC_PORT": "99999"}, "", "SVC_PORT: bad value '99999'; allowed: a whole number from 0 to 65535"),
        ({}, {}, 'port = "8080"', "port in FILE: bad value '8080'; allowed: a whole number from 0 to 65535"),
        ({}, {"LOG_JSON": "yes"}, "", "LOG_JSON: bad value 'yes'; allowed: 1, true, 0 or false"),
        (
            {},
            {},
            "method-set = []",
            "method-set in FILE: bad value []; allowed: auto, both, release, development, 5.x or 6.x",
        ),
        (
            {"port": "1" * 500},
            {},
            "",
            "--port: bad value '" + "1" * 79 + "...; allowed: a whole number from 0 to 65535",
        ),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(
    flags: dict[str, str], environment: dict[str, str], text: str, line: str, tmp_path: Path
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as failure:
        resolved(flags, environment, file)
    assert str(failure.value) == line.replace("FILE", str(file))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("prot = 1", "unknown setting 'prot' in FILE (did you mean port?)"),
        ("data_directory = 'x'", "unknown setting 'data_directory' in FILE (did you mean data-directory?)"),
        ("zzzzzz = 1", "unknown setting 'zzzzzz' in FILE"),
        ("[rpc]\nport = 1", "unknown table [rpc] in FILE; settings stand at the top level, named as the flags"),
    ],
)
def test_an_unknown_key_of_the_file_is_refused(text: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as failure:
        resolved(file=file)
    assert str(failure.value) == line.replace("FILE", str(file))


def test_an_unknown_environment_name_of_ours_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^unknown environment variable SVC_PROT \(did you mean SVC_PORT\?\); "):
        resolved(environment={"SVC_PROT": "1"})


@pytest.mark.parametrize("service", ["SVC", "SVC_X", "SVC_ADMIN", "SVC_METRICS", "SVC_A_1_B"])
def test_what_kubernetes_says_of_a_service_is_no_setting(service: str) -> None:
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "80",
        f"{service}_SERVICE_PORT_HTTP": "80",
        f"{service}_PORT": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP_PROTO": "tcp",
        f"{service}_PORT_80_TCP_PORT": "80",
        f"{service}_PORT_80_TCP_ADDR": "10.0.0.1",
        f"{service}_PORT_53_UDP": "udp://[fd00::1]:53",
    }
    assert resolved(environment=links).values == Settings()


def test_a_port_of_ours_that_is_no_number_still_stops_the_start() -> None:
    with pytest.raises(SettingError, match="SVC_PORT: bad value 'tcp'"):
        resolved(environment={"SVC_PORT": "tcp"})


def test_environment_names_of_others_are_left_alone() -> None:
    assert resolved(environment={"PORT": "1", "HOME": "/", "MY_SVC_PORT": "x"}).values == Settings()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("DATA_DIR", "DATA_DIRECTORY"),
        ("FASTNODE_PORT", "SVC_PORT"),
        ("FASTNODE_DATA_DIR", "SVC_DATA_DIRECTORY"),
        ("FASTNODE_CONFIG", "SVC_CONFIG"),
        ("AZTEC_ADMIN_PORT", "SVC_ADMIN_PORT"),
    ],
)
def test_a_name_that_is_cut_short_or_has_another_prefix_brings_a_warning(name: str, meant: str) -> None:
    found = resolved(environment={name: "9"})
    assert found.values == Settings()
    assert found.warnings == (f"{name} is set, and no setting is called so (did you mean {meant}?)",)


@pytest.mark.parametrize(
    "name", ["FASTNODE_URL", "FASTNODE_API_KEY", "FASTNODE_DEBUG", "LOG_LE", "DATA_DIRS_X", "MY_DIR"]
)
def test_names_of_other_programs_bring_no_warning(name: str) -> None:
    assert resolved(environment={name: "9"}).warnings == ()


def test_the_name_of_the_settings_file_is_a_known_environment_name() -> None:
    assert resolved(environment={"SVC_CONFIG": "node.toml"}).values == Settings()


def test_an_empty_environment_variable_counts_as_not_set() -> None:
    result = resolved(environment={"SVC_PORT": "", "RPC_MAX_BATCH_SIZE": ""})
    assert result.values == Settings()
    assert result.origins["port"] == Origin("default", "")


def test_two_environment_names_of_one_setting_must_agree() -> None:
    agreeing = {"SVC_LOG_JSON": "1", "LOG_JSON": "1"}
    assert resolved(environment=agreeing).values.log_json
    with pytest.raises(SettingError, match="SVC_LOG_JSON and LOG_JSON are the same setting and have different values"):
        resolved(environment=agreeing | {"LOG_JSON": "0"})


@pytest.mark.parametrize("row", [row for row in RENAMED if row.environment], ids=lambda row: row.environment)
def test_a_renamed_environment_name_brings_a_warning_and_no_value(row: object) -> None:
    name = row.environment  # type: ignore[attr-defined]
    result = resolved(environment={name: "5"})
    assert result.values == Settings()
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(f"{name} is set but not read any more; ")


@pytest.mark.parametrize("row", [row for row in RENAMED if row.flag], ids=lambda row: row.flag)
def test_a_renamed_key_of_the_file_is_refused_with_its_successor(row: object, tmp_path: Path) -> None:
    key = row.flag.removeprefix("--")  # type: ignore[attr-defined]
    file = tmp_path / "node.toml"
    file.write_text(f'"{key}" = 1')
    with pytest.raises(SettingError, match=rf"^{key} in .* is not a setting any more; "):
        resolved(file=file)


def test_every_renamed_setting_of_the_release_notes_names_its_successor() -> None:
    advice = {name: row.environment_advice for row in RENAMED if (name := row.environment)}
    advice |= {name: row.flag_advice for row in RENAMED if (name := row.flag)}
    for old, new in {
        "BOT_BASE_FEE_PADDING": "BOT_MIN_FEE_PADDING",
        "--bot.baseFeePadding": "--bot.minFeePadding",
        "SEQ_TX_POLLING_INTERVAL_MS": "SEQ_POLLING_INTERVAL_MS",
        "SEQ_MAX_L1_TX_INCLUSION_TIME_INTO_SLOT": "SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT",
        "SEQ_MAX_TX_PER_BLOCK": "SEQ_MAX_TX_PER_CHECKPOINT",
        "SEQ_MAX_BLOCK_SIZE_IN_BYTES": "SEQ_MAX_L2_BLOCK_GAS",
        "--maxBlockSizeInBytes": "--maxL2BlockGas",
        "--txPublicSetupAllowList": "--txPublicSetupAllowListExtend",
    }.items():
        assert new in advice[old]


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"settings file .*missing\.toml cannot be read: No such file or directory"):
        resolved(file=tmp_path / "missing.toml")


def test_a_settings_file_that_is_not_toml_is_named_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("port 8080")
    with pytest.raises(SettingError, match=r"is not TOML: .*line 1"):
        resolved(file=file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingError, match="is not TOML"):
        resolved(file=file)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithSecret:
    database_url: str | None = setting(None, Choice(("aaaa", "bbbb")), "Secrets", "A secret.", secret=True)


def test_a_secret_is_shown_in_no_error_and_no_listing() -> None:
    with pytest.raises(SettingError) as failure:
        resolve(WithSecret, flags={"database-url": "hunter2"}, environment={}, config_file=None)
    assert "hunter2" not in str(failure.value)
    (row,) = rows(WithSecret)
    assert row.show("aaaa") == "(set, not shown)"
    assert row.show(None) is None


def test_no_two_settings_share_a_flag_or_an_environment_name() -> None:
    flags = [flag for row in ROWS for flag in (row.flag, *row.other_flags)]
    names = [name for row in ROWS for name in row.environment]
    assert len(set(flags)) == len(flags)
    assert len(set(names)) == len(names)


def test_the_ports_and_limits_have_the_defaults_of_the_specification() -> None:
    values = Settings()
    assert (values.port, values.admin_port, values.admin_host) == (8080, 8880, "127.0.0.1")
    assert (values.rpc_max_batch_size, values.rpc_max_body_size) == (100, 1_048_576)


def test_the_settings_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == render(), "run: python -m fastnode.config.documentation > docs/settings.md"
