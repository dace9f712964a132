"""import, export, db check, config show and the rest, as processes: what they print and how they end."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests import forked_nodes

from fastnode.cli.app import root

TIMEOUT_S = 120.0


def fastnode(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SVC_", "LOG_"))}
    command = [sys.executable, "-m", "fastnode", *arguments]
    return forked_nodes.run(command, text=True, timeout=TIMEOUT_S, env=inherited | environment)


def output_of(*arguments: object, **environment: str) -> str:
    """Standard output of a command that succeeds."""
    done = fastnode(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Path:
    """A data directory that holds the sample chain."""
    directory = tmp_path_factory.mktemp("loaded")
    output_of("import", sample_chain, "--data-directory", directory, "--no-verify")
    return directory


# ---- import, export, db check ------------------------------------------------------------------------


def test_import_verifies_and_says_how_many_blocks_are_new(tmp_path: Path, sample_chain: Path) -> None:
    first = output_of("import", sample_chain, "--data-directory", tmp_path)
    assert first == "106 new blocks, 0 known already; newest block 106\n"
    again = output_of("import", sample_chain, SVC_DATA_DIRECTORY=str(tmp_path))
    assert again == "0 new blocks, 106 known already; newest block 106\n"
    assert output_of("db", "check", "--data-directory", tmp_path) == (
        "106 blocks, 41 checkpoints, 137 transactions: clean\n"
    )
    report = json.loads(output_of("db", "check", "--json", "--data-directory", tmp_path))
    counts = {"blocks": 106, "checkpoints": 41, "transactions": 137}
    assert report == {"clean": True, **counts, "problems": [], "notes": []}


def test_no_verify_says_what_it_skips(tmp_path: Path, sample_chain: Path) -> None:
    done = fastnode("import", sample_chain, "--data-directory", tmp_path, "--no-verify")
    assert done.returncode == 0
    assert "verification is off: not checked: " in done.stderr


def test_what_is_exported_can_be_imported_and_exports_alike(tmp_path: Path, loaded: Path) -> None:
    exported = tmp_path / "chain.jsonl.gz"
    assert output_of("export", exported, "--data-directory", loaded) == "blocks 1 to 106, 41 whole checkpoints\n"
    output_of("import", exported, "--data-directory", tmp_path / "copy", "--no-verify")
    again = tmp_path / "again.jsonl"
    output_of("export", again, "--data-directory", tmp_path / "copy")
    assert gzip.decompress(exported.read_bytes()) == again.read_bytes()


def test_a_part_of_the_chain_can_be_exported(tmp_path: Path, loaded: Path) -> None:
    part = tmp_path / "part.jsonl"
    assert output_of("export", part, "--data-directory", loaded, "--to", 20).startswith("blocks 1 to 20, ")
    kinds = [json.loads(line)["kind"] for line in part.read_text().splitlines()]
    assert (kinds[0], kinds[1], kinds[-1]) == ("chain", "genesis", "tips")
    output_of("import", part, "--data-directory", tmp_path / "data", "--no-verify")
    rest = tmp_path / "rest.jsonl"
    first = int(output_of("export", rest, "--data-directory", loaded, "--from", 21).split()[1])
    assert first <= 21
    done = output_of("import", rest, "--data-directory", tmp_path / "data", "--no-verify")
    assert done.endswith("newest block 106\n")


@pytest.mark.parametrize("blocks", [("--from", 5, "--to", 4), ("--to", 107), ("--from", 107)])
def test_blocks_that_are_not_there_cannot_be_exported(tmp_path: Path, loaded: Path, blocks: tuple[object, ...]) -> None:
    done = fastnode("export", tmp_path / "out", "--data-directory", loaded, *blocks)
    assert done.returncode == 1
    assert "cannot be exported: the chain has blocks 1 to 106" in done.stderr
    assert not (tmp_path / "out").exists()


def test_tables_are_exported_continued_and_verified(tmp_path: Path, loaded: Path) -> None:
    tables = ("export", "--format", "parquet", tmp_path / "chain", "--data-directory", loaded, "--partition-blocks", 50)
    assert output_of(*tables) == "blocks 1 to 92, 1350 rows (1350 written now), verified\n"
    assert output_of(*tables, "--to", 106) == "blocks 1 to 106, 2631 rows (1936 written now), verified\n"
    assert output_of(*tables, "--verify-all") == "blocks 1 to 106, 2631 rows (0 written now), verified\n"
    file = next((tmp_path / "chain" / "fees").glob("blocks=00000050-*/part.parquet"))
    file.write_bytes(file.read_bytes()[::-1])
    done = fastnode(*tables, "--verify-all")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"fastnode: error: {file} cannot be read: ")
    only = ("export", "--format", "parquet", tmp_path / "some", "--data-directory", loaded, "--no-verify", "--tables")
    assert output_of(*only, "transactions, messages").endswith(", not verified\n")
    assert {path.name for path in (tmp_path / "some").iterdir()} == {
        *("manifest.json", "transactions", "l1_to_l2_messages", "l2_to_l1_messages")
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--tables", "blocks"), 2, "--tables takes --format parquet"),
        (("--verify-all",), 2, "--verify-all takes --format parquet"),
        (("--format", "csv"), 2, "'csv' is not one of 'chain', 'parquet'"),
        (("--format", "parquet", "--no-verify", "--verify-all"), 2, "contradict each other"),
        (
            ("--format", "parquet", "--tables", "blocks,logs"),
            78,
            "--tables: there is no table 'logs'; there are blocks,",
        ),
        (("--format", "parquet", "--tables", ","), 78, "--tables: names no table"),
        (("--format", "parquet", "--from", 3, "--to", 2), 1, "blocks 3 to 2 cannot be exported"),
    ],
)
def test_an_export_that_makes_no_sense_is_refused_and_makes_nothing(
    tmp_path: Path, loaded: Path, words: tuple[object, ...], code: int, said: str
) -> None:
    done = fastnode("export", tmp_path / "out", "--data-directory", loaded, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_commands_on_a_data_directory_want_to_know_which(tmp_path: Path, sample_chain: Path) -> None:
    for command in (("import", sample_chain), ("export", tmp_path / "out"), ("db", "check")):
        done = fastnode(*command)
        assert done.returncode == 78
        assert done.stderr == (
            "fastnode: error: no data directory: add --data-directory DIRECTORY or set SVC_DATA_DIRECTORY\n"
        )


@pytest.mark.parametrize("flag", ["--chain-file", "--genesis"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_a_start_cannot_read_is_a_bad_setting_whatever_is_wrong_with_it(
    tmp_path: Path, flag: str, workers: int
) -> None:
    """Else whoever supervises the node starts it for ever."""
    file = tmp_path / "chain.jsonl"
    file.write_text('{"x":\n')
    more = ("--upstream-url", "http://127.0.0.1:1") if flag == "--genesis" else ()
    ports = ("--port=0", "--admin-port=0", f"--workers={workers}", "--data-directory", tmp_path / "data")
    done = fastnode("start", "--node", flag, file, *ports, *more, "--log-json")
    assert done.returncode == 78
    last = json.loads(done.stderr.splitlines()[-1])
    assert (last["level"], last["exit_code"]) == ("error", 78)
    assert "chain.jsonl, line 1: not JSON" in last["message"]


@pytest.mark.parametrize("url", ["ftp://host/", "http://host/#nope", "http://host/"], ids=["scheme", "topic", "secret"])
def test_a_webhook_that_makes_no_sense_stops_the_start_before_anything_opens(tmp_path: Path, url: str) -> None:
    data = tmp_path / "data"
    done = fastnode(
        "start", "--local-network", "--port=0", "--admin-port=0", "--data-directory", data, "--webhook-url", url
    )
    assert done.returncode == 78
    assert "--webhook-" in done.stderr.splitlines()[-1]
    assert not data.exists()


def test_export_and_check_make_no_data_directory(tmp_path: Path) -> None:
    for command in (("export", tmp_path / "out"), ("db", "check")):
        done = fastnode(*command, "--data-directory", tmp_path / "nope")
        assert done.stderr == f"fastnode: error: there is no data directory {tmp_path / 'nope'}\n"
        assert not (tmp_path / "nope").exists()
    (tmp_path / "empty").mkdir()
    done = fastnode("db", "check", "--data-directory", tmp_path / "empty")
    assert done.returncode == 1
    assert "holds no fastnode database" in done.stderr


def test_db_check_finds_a_value_that_was_changed(tmp_path: Path, sample_chain: Path) -> None:
    from fastnode.archiver import layout
    from fastnode.kernels import stored_text
    from fastnode.storage.database import open_leveldb

    output_of("import", sample_chain, "--data-directory", tmp_path, "--no-verify")
    with open_leveldb(tmp_path / "archiver", create=False) as database:
        key = layout.block_key(57)
        text = stored_text.unpack(database.get(key))
        database.put(key, stored_text.pack(text.replace(b'"totalFees"', b'"totalFeez"')))
    done = fastnode("db", "check", "--data-directory", tmp_path)
    assert done.returncode == 1
    assert "block 57.header.totalFees" in done.stdout
    assert "clean" not in done.stdout


# ---- config show -----------------------------------------------------------------------------------


def shown(text: str) -> dict[str, tuple[str, str]]:
    """Name to value and origin."""
    rows = (line.split(None, 2) for line in text.replace("(not set)", "not-set").splitlines())
    return {name: (value, origin.strip()) for name, value, origin in rows}


def test_config_show_tells_every_value_and_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('rpc-max-batch-size = 7\nhost = "0.0.0.0"\n')
    text = output_of("config", "show", "--port", "9", "--config", file, SVC_HOST="::1", LOG_JSON="1")
    values = shown(text)
    assert values["port"] == ("9", "flag --port")
    assert values["host"] == ("::1", "environment SVC_HOST")
    assert values["log-json"] == ("true", "environment LOG_JSON")
    assert values["rpc-max-batch-size"] == ("7", f"file {file}")
    assert values["admin-port"] == ("8880", "default")
    assert values["data-directory"] == ("not-set", "default")
    from fastnode.config.settings import Settings, rows

    assert set(values) == {row.name for row in rows(Settings)}


def test_config_show_can_leave_out_defaults_and_speak_json() -> None:
    assert output_of("config", "show", "--changed") == ""
    assert output_of("config", "show", "--changed", "--port", "9") == "port  9  flag --port\n"
    found = json.loads(output_of("config", "show", "--json", SVC_UPSTREAM_URL="http://user:secret@node"))
    assert found["upstream-url"] == {"value": "(set, not shown)", "origin": "environment SVC_UPSTREAM_URL"}
    assert found["data-directory"] == {"value": None, "origin": "default"}
    assert found["rpc-max-body-size"] == {"value": "1mb", "origin": "default"}


def test_config_show_warns_of_names_that_are_not_read_any_more() -> None:
    done = fastnode("config", "show", SEQ_MAX_TX_PER_BLOCK="5")
    assert done.returncode == 0
    assert "SEQ_MAX_TX_PER_BLOCK is set but not read any more; use SEQ_MAX_TX_PER_CHECKPOINT" in done.stderr


# ---- the rest --------------------------------------------------------------------------------------


def test_version_names_the_kernel() -> None:
    from fastnode import __version__, kernels

    kernel = kernels.poseidon2.kernel_name()
    assert output_of("--version").startswith(f"fastnode {__version__} (kernel {kernel}, Python 3.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell: str) -> None:
    assert "_FASTNODE_COMPLETE" in output_of("completion", shell)


def test_the_completion_of_a_shell_knows_commands_and_flags() -> None:
    # The script calls the command by its name, under which this test runs it as a module.
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'fastnode'; from fastnode.cli import main; main()"]
    for words, count, expected in (
        ("fastnode ex", 1, "export"),
        ("fastnode start --method", 2, "--method-set"),
        ("fastnode start --method-set dev", 3, "development"),
        ("fastnode rpc getBlockN", 2, "getBlockNumber"),
        ("fastnode rpc nodeAdmin_getC", 2, "nodeAdmin_getConfig"),
    ):
        environment = os.environ | {
            "_FASTNODE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert expected in done.stdout


def test_a_group_without_a_command_shows_its_help() -> None:
    for arguments in ((), ("db",), ("config",)):
        done = fastnode(*arguments)
        assert done.returncode == 2
        assert "Usage: fastnode" in done.stdout + done.stderr
        assert len((done.stdout + done.stderr).splitlines()) > 3


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        yield f"{path}{name}"
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


@pytest.mark.parametrize("command", ["", *commands(root)])
def test_every_command_has_help(command: str) -> None:
    text = output_of(*command.split(), "--help")
    assert f"Usage: fastnode {command}" in text
    assert "..." not in text.partition("Commands:")[2], "a line of the list of commands is cut off"


def test_an_interrupted_pipe_ends_without_a_word() -> None:
    command = f"{shlex.quote(sys.executable)} -m fastnode config show | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stderr == ""
