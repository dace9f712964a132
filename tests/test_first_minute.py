"""What goes wrong in the first minute: one line that says what to do, and a non-zero exit code."""

from __future__ import annotations

import json
import lzma
import os
import resource
import shutil
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked_nodes
from tests.small_disk import mounted

from fastnode.storage.database import open_leveldb

PACKAGE = Path(__file__).parents[1] / "src" / "fastnode"
TIMEOUT_S = 60.0


def failure_of(*arguments: object, preexec: Callable[[], None] | None = None, **environment: str) -> tuple[str, int]:
    """The one line on standard error with which a command ends, and its exit code."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SVC_", "LOG_"))}
    done = forked_nodes.run(
        [sys.executable, "-m", "fastnode", *arguments],
        text=True,
        timeout=TIMEOUT_S,
        preexec_fn=preexec,
        env=inherited | {"LOG_LEVEL": "error"} | environment,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 1, f"not one line but {done.stderr!r}"
    assert done.returncode != 0
    assert done.stdout == ""
    return lines[0], done.returncode


def start(*arguments: object, **more: Any) -> tuple[str, int]:
    return failure_of("start", "--node", "--port=0", "--admin-port=0", "--disable-admin-api-key", *arguments, **more)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def chain_lines(sample_chain: Path) -> list[bytes]:
    return lzma.decompress(sample_chain.read_bytes()).splitlines(keepends=True)


def imported(directory: Path, file: Path) -> Path:
    """``directory``, holding the chain of ``file``."""
    command = [sys.executable, "-m", "fastnode", "import", file, "--data-directory", directory, "--no-verify"]
    forked_nodes.run(command, check=True, timeout=TIMEOUT_S)
    return directory


# ---- ports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--port", "--admin-port"])
def test_a_port_that_is_taken_is_named_with_its_flag(flag: str, taken_port: int) -> None:
    line, code = start(f"{flag}={taken_port}")
    expected = f"port {taken_port} on 127.0.0.1 is in use by another program; choose another one with {flag}"
    assert (line, code) == (f"fastnode: error: {expected}", 1)


def test_an_address_of_another_machine_is_named() -> None:
    line, code = start("--host=192.0.2.1")
    assert code == 1
    assert line.startswith("fastnode: error: cannot listen on 192.0.2.1:0: ")
    assert line.endswith("; choose an address of this machine with --host")


def test_an_unknown_address_is_named() -> None:
    line, code = start("--admin-host=nowhere.invalid")
    assert code == 78
    assert "cannot listen on nowhere.invalid:0: " in line
    assert "Unknown error" not in line
    assert line.endswith("with --admin-host")


def test_a_missing_genesis_is_named_before_an_upstream_is_waited_for(tmp_path: Path, taken_port: int) -> None:
    upstream = f"--upstream-url=http://127.0.0.1:{taken_port}"  # takes connections, answers none
    line, code = start(upstream, f"--data-directory={tmp_path}", "--genesis=/nowhere/genesis.jsonl")
    assert (line, code) == ("fastnode: error: --genesis /nowhere/genesis.jsonl: there is no such file", 78)


# ---- the data directory ----------------------------------------------------------------------------


def test_a_data_directory_of_another_chain_is_refused_with_both_names(
    tmp_path: Path, sample_chain: Path, chain_lines: list[bytes]
) -> None:
    chain = json.loads(chain_lines[0])
    ours = chain["nodeInfo"]["rollupVersion"]
    chain["nodeInfo"]["rollupVersion"] = 7
    other = tmp_path / "other.jsonl"
    other.write_bytes(json.dumps(chain).encode() + b"\n" + chain_lines[1])
    directory = imported(tmp_path / "data", sample_chain)
    for command in (("import", other), ("start", "--node", "--port=0", "--admin-port=0", "--chain-file", other)):
        line, code = failure_of(*command, "--data-directory", directory)
        assert code == 1
        assert f"{directory} holds another chain: its rollup version is {ours}, the given chain's is 7" in line


def test_a_data_directory_of_a_newer_schema_is_refused(tmp_path: Path, sample_chain: Path) -> None:
    directory = imported(tmp_path / "data", sample_chain)
    from fastnode.archiver import layout

    with open_leveldb(directory / "archiver", create=False) as database:
        database.put(layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"%d" % (layout.SCHEMA_VERSION + 1))
    line, code = start("--data-directory", directory)
    assert code == 1
    assert f"has schema {layout.SCHEMA_VERSION + 1}, newer than this fastnode's {layout.SCHEMA_VERSION}" in line


def test_a_data_directory_that_a_node_uses_is_refused_to_every_other_command(
    tmp_path: Path, start_node: Callable[..., Any], sample_chain: Path
) -> None:
    node = start_node("--data-directory", tmp_path / "data").wait_until_serving()
    expected = f"the data directory {tmp_path / 'data'} is in use by fastnode process {node.process.pid}"
    for command in (("import", sample_chain), ("export", tmp_path / "out"), ("db", "check")):
        line, code = failure_of(*command, "--data-directory", tmp_path / "data")
        assert (line, code) == (f"fastnode: error: {expected}", 1)
    line, code = start("--data-directory", tmp_path / "data")
    assert (line, code) == (f"fastnode: error: {expected}", 1)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc, where no directory can be made")
@pytest.mark.parametrize("database", ["archiver", "world_state"])
def test_a_database_whose_file_is_cut_off_is_named(database: str, tmp_path: Path, sample_chain: Path) -> None:
    directory = imported(tmp_path / "damaged", sample_chain)
    with open_leveldb(directory / database, create=False) as opened:
        opened.compact_range(start=b"\0", stop=b"\xff" * 128)
    for table in (directory / database).glob("*.ldb"):
        table.write_bytes(table.read_bytes()[:100])
    line, code = start(f"--data-directory={directory}")
    assert f"the database {directory / database} is damaged: " in line
    assert "has 100 bytes instead of " in line
    assert code == 1


@pytest.mark.parametrize("lost", ["CURRENT", "MANIFEST-*", "*"])
def test_the_sample_chain_never_takes_the_place_of_a_lost_one(lost: str, tmp_path: Path, sample_chain: Path) -> None:
    directory = imported(tmp_path / "damaged", sample_chain)
    for file in list((directory / "archiver").glob(lost)):
        file.unlink()
    left = sorted(file.name for file in directory.glob("*/*.ldb"))
    line, code = start(f"--data-directory={directory}")
    assert f"database {directory / 'archiver'} is " in line
    assert "restore it" in line
    assert code == 1
    assert sorted(file.name for file in directory.glob("*/*.ldb")) == left


def test_a_directory_that_cannot_be_made_is_named() -> None:
    line, code = start("--data-directory", "/proc/fastnode")
    assert code == 78
    assert "the data directory /proc/fastnode cannot be used: " in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    line, code = start("--data-directory", tmp_path)
    assert line.startswith(f"fastnode: error: the data directory {tmp_path} cannot be used: Permission denied (")
    assert code == 78


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    line, code = start("--data-directory", tmp_path / "data")
    assert (line, code) == (f"fastnode: error: the data directory {tmp_path / 'data'} cannot be used: it is a file", 78)


def test_a_disk_that_takes_no_more_ends_the_node_and_keeps_whole_blocks(tmp_path: Path, sample_chain: Path) -> None:
    """A limit on the size of files stands for the full disk: the system refuses a write in the middle."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    flags = ("--data-directory", tmp_path, "--chain-file", sample_chain, "--no-verify")
    line, code = start(*flags, preexec=limit_files)
    assert code == 1
    assert f"cannot write the database {tmp_path}/archiver" in line
    assert "File too large" in line
    command = [sys.executable, "-m", "fastnode", "db", "check", "--data-directory", str(tmp_path)]
    checked = forked_nodes.run(command, text=True, timeout=TIMEOUT_S, check=True)
    assert "clean" in checked.stdout
    assert "106 blocks" not in checked.stdout
    imported(tmp_path, sample_chain)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 300_000) as disk:
        yield disk


def test_a_full_disk_is_named(small_disk: Path, sample_chain: Path) -> None:
    line, code = start("--data-directory", small_disk, "--chain-file", sample_chain, "--no-verify")
    assert code == 1
    assert f"{small_disk}/" in line
    assert "is full" in line


# ---- the chain file --------------------------------------------------------------------------------


def test_a_missing_chain_file_is_named(tmp_path: Path) -> None:
    line, code = start("--chain-file", tmp_path / "nope.jsonl")
    assert (line, code) == (f"fastnode: error: --chain-file {tmp_path / 'nope.jsonl'}: there is no such file", 78)


@pytest.mark.parametrize("command", ["start", "import"])
def test_a_chain_file_with_a_bad_line_is_named_with_its_line_number(
    command: str, tmp_path: Path, chain_lines: list[bytes]
) -> None:
    file = tmp_path / "chain.jsonl"
    file.write_bytes(b"".join(chain_lines[:4]) + b'{"kind":"checkpoint","published":\n')
    directory = tmp_path / "data"
    if command == "start":
        line, code = start("--no-verify", "--chain-file", file, "--data-directory", directory)
    else:
        line, code = failure_of("import", "--no-verify", file, "--data-directory", directory)
    named, expected = (f"--chain-file {file}", 78) if command == "start" else (f"{file}", 1)
    assert code == expected
    assert line.startswith(f"fastnode: error: {named}, line 5: ")


def test_a_block_that_fails_a_check_is_named_with_its_line_number(tmp_path: Path, chain_lines: list[bytes]) -> None:
    file = tmp_path / "chain.jsonl"
    record = json.loads(chain_lines[3])
    header = record["published"]["checkpoint"]["blocks"][0]["header"]
    header["totalFees"] = "0x" + "1".rjust(64, "0")
    file.write_bytes(b"".join(chain_lines[:3]) + json.dumps(record).encode())
    line, code = start("--chain-file", file, "--data-directory", tmp_path / "data")
    assert code == 78
    assert line.startswith(f"fastnode: error: --chain-file {file}, line 4: ")


def test_a_chain_file_that_is_cut_off_is_named(tmp_path: Path, sample_chain: Path) -> None:
    file = tmp_path / "chain.jsonl.gz"
    file.write_bytes(sample_chain.read_bytes()[:100_000])
    line, code = start("--no-verify", "--chain-file", file)
    assert code == 78
    assert f"{file}, line " in line


# ---- the installation -------------------------------------------------------------------------------


def test_an_extension_that_is_not_built_is_named(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "fastnode", ignore=shutil.ignore_patterns("*.so", "*.c", "*.html", "*.gz"))
    line, code = start(PYTHONPATH=str(tmp_path), FASTNODE_NO_EXTENSIONS="0")
    assert code == 1
    assert "the compiled extension fastnode._ext." in line
    assert "build it with" in line


# ---- addresses -----------------------------------------------------------------------------------


def test_the_line_that_says_serving_has_addresses_to_click_on(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--chain-file", short_chain, "--metrics-port=0").wait_until_serving()
    entry = node.wait_for_line("serving")
    assert entry["url"] == f"http://127.0.0.1:{node.port}"
    assert entry["admin_url"] == f"http://127.0.0.1:{node.admin_port}"
    with urllib.request.urlopen(f"{entry['url']}/livez", timeout=30) as response:
        assert response.status == 200


# ---- settings -------------------------------------------------------------------------------------


def test_a_start_without_node_says_what_to_add() -> None:
    line, code = failure_of("start")
    what = "add --node, or --local-network for a chain of your own (see fastnode start --help)"
    assert (line, code) == (f"fastnode: error: nothing to start: {what}", 2)


PORTS = "a whole number from 0 to 65535"


def test_a_bad_value_of_a_flag_is_named_with_what_is_allowed() -> None:
    line, code = failure_of("start", "--node", "--port", "eighty")
    assert (line, code) == (f"fastnode: error: --port: bad value 'eighty'; allowed: {PORTS}", 78)


def test_a_bad_value_in_the_environment_is_named_with_what_is_allowed() -> None:
    line, code = failure_of("start", "--node", SVC_PORT="65536")
    assert (line, code) == (f"fastnode: error: SVC_PORT: bad value '65536'; allowed: {PORTS}", 78)


def test_a_bad_value_in_the_settings_file_is_named_with_what_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('port = "8080"\n')
    line, code = failure_of("start", "--node", "--config", file)
    assert (line, code) == (f"fastnode: error: port in {file}: bad value '8080'; allowed: {PORTS}", 78)


def test_an_entry_of_the_allow_list_that_makes_no_sense_is_named() -> None:
    line, code = failure_of("start", "--node", TX_PUBLIC_SETUP_ALLOWLIST="I:0x01")
    assert code == 78
    assert line.startswith('fastnode: error: TX_PUBLIC_SETUP_ALLOWLIST: Invalid allow list entry "I:0x01"')


def test_an_unknown_flag_is_named_with_what_is_close() -> None:
    line, code = failure_of("start", "--node", "--prot", "1")
    assert code == 2
    assert line.startswith("fastnode: error: no such option --prot; did you mean ")
    assert "--port" in line


def test_an_unknown_environment_name_is_named_with_what_is_close() -> None:
    line, code = failure_of("start", "--node", SVC_PROT="1")
    assert code == 78
    assert line.startswith("fastnode: error: unknown environment variable SVC_PROT (did you mean SVC_PORT?)")


def test_an_unknown_key_of_the_settings_file_is_named_with_what_is_close(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("prot = 1\n")
    line, code = failure_of("start", "--node", SVC_CONFIG=str(file))
    assert (line, code) == (f"fastnode: error: unknown setting 'prot' in {file} (did you mean port?)", 78)


def test_a_settings_file_that_is_missing_or_no_toml_is_named(tmp_path: Path) -> None:
    line, code = failure_of("start", "--node", "--config", tmp_path / "node.toml")
    assert (line, code) == (
        f"fastnode: error: settings file {tmp_path / 'node.toml'} cannot be read: No such file or directory",
        78,
    )
    (tmp_path / "node.toml").write_text("port 8080")
    line, code = failure_of("start", "--node", "--config", tmp_path / "node.toml")
    assert code == 78
    assert line.startswith(f"fastnode: error: settings file {tmp_path / 'node.toml'} is not TOML: ")


def test_a_setting_of_an_earlier_release_is_pointed_to_its_successor() -> None:
    line, code = failure_of("start", "--node", "--maxBlockSizeInBytes", "5")
    assert code == 2
    assert line.startswith("fastnode: error: --maxBlockSizeInBytes is not a setting any more; ")


def test_the_last_line_is_json_where_the_log_is(tmp_path: Path) -> None:
    for flags, environment in ((["--log-json"], {}), ([], {"LOG_JSON": "1"})):
        line, code = start("--prot=1", *flags, **environment)
        entry = json.loads(line)
        assert (entry["level"], entry["logger"], entry["exit_code"], code) == ("error", "fastnode.cli", 2, 2)
        assert entry["message"].startswith("no such option --prot")
    line, _ = start("--prot=1", "--no-log-json", LOG_JSON="1")
    assert line.startswith("fastnode: error: no such option --prot")
    file = tmp_path / "node.toml"
    file.write_text("log-json = true\nl1-chain-id = 1")
    line, code = start("--config", file, "--key-store-directory=/nowhere")
    assert (json.loads(line)["exit_code"], code) == (78, 78)
    line, code = failure_of("import", LOG_JSON="1")
    assert (json.loads(line)["exit_code"], code) == (2, 2)


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--host=nowhere.invalid"], "choose an address of this machine with --host"),
        (["--load-state=/nowhere/state", "--local-network"], "--load-state /nowhere/state: there is no such file"),
        (["--dump-state=/nowhere/state", "--local-network"], "there is no directory /nowhere"),
        (["--fork-from=/nowhere/chain", "--local-network"], "there is no such file or directory, and it is no URL"),
        (["--key-store-directory=/nowhere"], "Failed to load keystore from /nowhere"),
        (["--rollup-version=5"], "the chain is on another network: rollup-version is to be 5"),
        (["--snapshots-urls=nonsense"], "--snapshots-urls: each location begins with one of file:///, http://"),
        (["--snapshot-upload-locations=nonsense"], "each location begins with one of file:///, s3://, gs://"),
        (["--p2p-enabled", "--p2p-ip=nonsense"], "p2p-ip: 'nonsense' is no IPv4 address"),
        (["--p2p-enabled", "--p2p-port=0", "--p2p-listen-addr=nowhere.invalid"], "p2p-listen-addr: "),
    ],
)
def test_a_setting_that_will_be_as_bad_at_the_next_start_ends_with_78(flags: list[str], what: str) -> None:
    line, code = start(*flags)
    assert what in line
    assert code == 78


def test_an_ipv6_address_may_stand_in_brackets() -> None:
    from fastnode.values.texts import Host

    assert (Host().from_text("[::1]"), Host().from_text("::1"), Host().from_text("node.example")) == (
        "::1",
        "::1",
        "node.example",
    )
