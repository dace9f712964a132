"""``fastnode proofs check|install``: the verifier of transaction proofs, by hand."""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import click

from fastnode.cli.options import with_settings
from fastnode.cli.output import say
from fastnode.config.resolve import Resolved
from fastnode.config.settings import Settings
from fastnode.config.table import PROOFS
from fastnode.errors import SettingError, StartError
from fastnode.files import system_reason

__all__ = ["proofs"]

EXIT_INVALID: Final = 1
EXIT_UNKNOWN: Final = 3

#: Far more than any transaction has.
_FILE_BYTES_MAX: Final = 16 << 20


@click.group()
def proofs() -> None:
    """Proofs of transactions: check one, install the verifier."""


@proofs.command(short_help="Check the proof of a transaction.")
@click.argument("file", metavar="TX.json")
@with_settings(PROOFS)
def check(resolved: Resolved[Settings], file: str) -> None:
    """Check the proof of the transaction in TX.json: an object as wallets send it, gzipped or not; - is standard input.

    Prints valid, invalid or unknown and why.  Exit codes: 0 valid, 1 invalid, 3 unknown.
    """
    from fastnode.errors import DecodeError
    from fastnode.proofs.verdict import Judgement
    from fastnode.proofs.verifier import BbVerifier
    from fastnode.protocol.releases import known
    from fastnode.protocol.tx import Tx

    value, problems = _transaction(file), []
    for release in known():
        try:
            tx = Tx.from_json(value, release)
            break
        except DecodeError as error:
            problems.append(f"of release {release.name}: {error}")
    else:
        raise StartError(f"{file} is no transaction {'; '.join(problems)}")
    roots = [release.vk_tree_root for release in known()]
    root = tx.data.vk_tree_root if tx.data.vk_tree_root in roots else roots[0]
    verifier = BbVerifier(_options(resolved.values), tree_root=root)
    try:
        reason = verifier.prepare()
        started = time.perf_counter()
        verdict = verifier.judge(tx)
    finally:
        verifier.close()
    say(f"transaction 0x{tx.hash.hex()}, {'with public calls' if tx.data.is_public else 'private only'}")
    if reason is not None:
        say(f"unknown: {reason}")
        sys.exit(EXIT_UNKNOWN)
    took = f"{(time.perf_counter() - started) * 1000:.0f} ms"
    if verdict.judgement is Judgement.VALID and tx.data.vk_tree_root != root:
        say(f"invalid: the proof holds ({took}), but for verification keys of another network or release")
        sys.exit(EXIT_INVALID)
    say(f"{verdict.judgement.value}{': ' + verdict.reason if verdict.reason else ''} ({took})")
    if verdict.judgement is not Judgement.VALID:
        sys.exit(EXIT_INVALID if verdict.judgement is Judgement.INVALID else EXIT_UNKNOWN)


@proofs.command("install", short_help="Install the verifier program.")
@click.argument("source", metavar="PATH", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--libraries",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIRECTORY",
    help="Folder with a newer loader and system libraries, for a system that is too old for the program.",
)
@with_settings(PROOFS)
def install_program(resolved: Resolved[Settings], source: Path, libraries: Path | None) -> None:
    """Install the verifier program (bb) for a node's data directory.

    PATH is the program itself, a folder of the npm package @aztec/bb.js, or the package's archive, as
    `npm pack @aztec/bb.js` of the network's version brings it.  The node finds it at its next start, and a running
    one within a minute.
    """
    from fastnode.proofs.install import install

    if not source.exists():
        raise SettingError(f"{source} does not exist")
    installed = install(source, _options(resolved.values).working_directory, libraries=libraries)
    say(f"{installed.path}: release {installed.version}, ready")
    if not installed.is_published:
        say("note: this is not the published build of that release; it judges transactions for you", err=True)


def _options(settings: Settings) -> Any:
    from fastnode.proofs.options import bb_options

    if settings.bb_working_directory is None and settings.data_directory is None:
        raise SettingError(
            "no directory to work in: add --data-directory DIRECTORY or --bb-working-directory DIRECTORY"
        )
    return bb_options(settings, settings.data_directory)


def _transaction(file: str) -> Any:
    try:
        content = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1) if file == "-" else _read(Path(file))
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {system_reason(Path(file), error)}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise StartError(f"{file} is larger than {_FILE_BYTES_MAX >> 20} MiB: it is no transaction")
    try:
        value = json.loads(content)
    except ValueError as error:
        raise StartError(f"{file} is no JSON: {error}") from None
    if isinstance(value, dict) and isinstance(value.get("params"), list) and value["params"]:
        return value["params"][0]  # a request of a wallet
    return value


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if is_packed else path.open("rb") as stream:
        return stream.read(_FILE_BYTES_MAX + 1)
