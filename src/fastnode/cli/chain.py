"""Commands on a data directory: ``import``, ``export`` and ``db check``."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fastnode.cli.options import LoggingCommand, with_settings
from fastnode.cli.output import say
from fastnode.cli.progress import Advance, progress
from fastnode.config.resolve import Resolved
from fastnode.config.settings import CHECK, EXPORT, IMPORT, Settings
from fastnode.errors import ExportError, SettingError
from fastnode.extras import advice_if_missing
from fastnode.values.refusal import Reject
from fastnode.values.texts import refuse_url

if TYPE_CHECKING:
    from fastnode.parquet.export import TablesSummary

__all__ = ["database", "export_chain", "import_chain", "prepare"]


def prepare(resolved: Resolved[Settings]) -> tuple[Settings, Path]:
    """Sets the log up; the settings, and the data directory, which these commands cannot do without."""
    from fastnode import log as logs

    settings = resolved.values
    logs.configure(level=settings.log_level, as_json=settings.log_json)
    for warning in resolved.warnings:
        logging.getLogger(__name__).warning(warning)
    if settings.data_directory is None:
        raise SettingError("no data directory: add --data-directory DIRECTORY or set SVC_DATA_DIRECTORY")
    return settings, settings.data_directory


class LocalPath(click.Path):
    """A path on this machine; a URL is refused."""

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            refuse_url(str(value))
        except Reject as refusal:
            self.fail(refusal.reason, param, ctx)
        return super().convert(value, param, ctx)


def _in_blocks(advance: Advance) -> Callable[[int, int], None]:
    """``advance`` for work that counts blocks."""
    return lambda done, total: advance(done, total, f"{done} of {total} blocks")


@click.command("import", short_help="Load a chain file into a data directory.", cls=LoggingCommand)
@click.argument("file", type=LocalPath())
@with_settings(IMPORT)
def import_chain(resolved: Resolved[Settings], file: Path) -> None:
    """Load the chain file FILE into a data directory, verifying every block.

    It may be stopped at any instant and run again: what is stored is recognised and skipped.
    """
    settings, path = prepare(resolved)
    from fastnode.chain_data import ChainData, ChainOptions
    from fastnode.sources.chain_import import ImportProgress, adopt_chain_file, import_chain_file

    with ChainData.open(path, options=ChainOptions.of(settings)) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=settings.verify)
        with progress("bringing the state up to the chain") as advance:
            ingestor.catch_up(_in_blocks(advance))
        with progress(f"importing {file.name}") as advance:

            def on_progress(now: ImportProgress) -> None:
                advance(now.bytes_read, now.bytes_total, f"block {now.block_number}")

            summary = import_chain_file(ingestor, file, progress=on_progress)
    known = summary.blocks - summary.new_blocks
    say(f"{summary.new_blocks} new blocks, {known} known already; newest block {summary.tip}")


class _Words(NamedTuple):
    """Words of the command line about an export of tables."""

    first: int | None
    last: int | None
    tables: str | None
    partition_blocks: int | None
    no_verify: bool
    verify_all: bool


@click.command("export", short_help="Write the stored chain to a chain file, or as tables.", cls=LoggingCommand)
@click.argument("target", metavar="FILE|DIRECTORY", type=LocalPath())
@click.option(
    "--format",
    "form",
    type=click.Choice(["chain", "parquet"]),
    default="chain",
    show_default=True,
    help="A chain file, for `fastnode import`, or Parquet files, for analysts.",
)
@click.option("--from", "first", type=click.IntRange(min=1), metavar="N", help="First block.  [default: 1]")
@click.option(
    "--to",
    "last",
    type=click.IntRange(min=1),
    metavar="N",
    help="Last block.  [default: the newest; of Parquet files the newest finalized one]",
)
@click.option("--tables", metavar="NAMES", help="Parquet: the tables, separated by commas.  [default: all]")
@click.option(
    "--partition-blocks",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    help="Parquet: blocks of a file.  [default: 10000]",
)
@click.option("--no-verify", is_flag=True, help="Parquet: hold nothing against the roots of the block headers.")
@click.option("--verify-all", is_flag=True, help="Parquet: verify again what an earlier run has verified.")
@with_settings(EXPORT)
def export_chain(
    resolved: Resolved[Settings],
    target: Path,
    form: str,
    first: int | None,
    last: int | None,
    tables: str | None,
    partition_blocks: int | None,
    no_verify: bool,
    verify_all: bool,
) -> None:
    """Write the stored chain to a chain file, or to a directory of Parquet files.

    The data directory must not be in use: stop the node, or restore a snapshot of it to another directory.

    A chain file is compressed if its name ends in .gz.  Blocks come in whole checkpoints: the file begins with the
    checkpoint of the first block.

    Parquet files are one table each, in partitions of blocks; docs/analysis.md names their columns.  They are verified
    against the roots of the block headers.  The same command continues what was interrupted, and adds blocks that have
    come since.
    """
    if form == "parquet":
        _export_tables(resolved, target, _Words(first, last, tables, partition_blocks, no_verify, verify_all))
        return
    of_tables = {"--tables": tables, "--partition-blocks": partition_blocks}
    for name, value in {**of_tables, "--no-verify": no_verify or None, "--verify-all": verify_all or None}.items():
        if value is not None:
            raise click.UsageError(f"{name} takes --format parquet", click.get_current_context())
    _, path = prepare(resolved)
    from fastnode.chain_data import ChainData
    from fastnode.sources.chain_export import export_chain_file

    with (
        ChainData.open(path, create=False) as data,
        data.store.open_view() as view,
        progress(f"exporting {target.name}") as advance,
    ):
        summary = export_chain_file(view, target, first_block=first or 1, last_block=last, progress=_in_blocks(advance))
    say(f"blocks {summary.first_block} to {summary.last_block}, {summary.checkpoints} whole checkpoints")


def _export_tables(resolved: Resolved[Settings], target: Path, words: _Words) -> None:
    settings, path = prepare(resolved)
    if words.no_verify and words.verify_all:
        raise click.UsageError("--no-verify and --verify-all contradict each other", click.get_current_context())
    for package in ("pyarrow", "numpy"):
        advice = advice_if_missing(package)
        if advice is not None:
            raise ExportError(advice)
    from fastnode.chain_data import ChainData, ChainOptions
    from fastnode.parquet.export import TablesWanted, export_tables

    wanted = TablesWanted(
        first=words.first,
        last=words.last,
        tables=None if words.tables is None else [name.strip() for name in words.tables.split(",") if name.strip()],
        partition_blocks=words.partition_blocks,
        verify_all=words.verify_all,
    )
    with ChainData.open(path, create=False, options=ChainOptions.of(settings)) as data:
        state = None
        if not words.no_verify:
            with progress("bringing the state up to the chain") as advance:
                data.open_ingestor(verify=True).catch_up(_in_blocks(advance))
            state = data.state.open_range_check()
        with data.store.open_view() as view, progress(f"exporting {target.name}") as advance:
            summary = export_tables(view, target, wanted, state=state, progress=advance)
    for line in _described(summary):
        say(line)


def _described(summary: TablesSummary) -> Iterator[str]:
    if summary.replaced:
        numbers = f"{summary.replaced[0]} to {summary.replaced[-1]}"
        yield f"written anew: the partitions of blocks {numbers}, because the chain has other blocks now"
    if summary.without_history:
        yield (
            f"note: the state of {summary.without_history} blocks is not kept: their public writes were held against "
            f"the hash of their block's effects, not against the root of the public data tree"
        )
    state = "verified" if summary.is_verified else "not verified"
    yield (
        f"blocks {summary.first} to {summary.last}, {summary.rows} rows ({summary.rows_written} written now), {state}"
    )


@click.group("db")
def database() -> None:
    """Look after the databases of a data directory."""


@database.command(cls=LoggingCommand)
@click.option(
    "--quick", is_flag=True, help="Look for damage alone: checksums, roots and some leaves, a second per gigabyte."
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that share a long check.  [default: one for each processor]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_settings(CHECK)
def check(resolved: Resolved[Settings], quick: bool, processes: int | None, as_json: bool) -> int:
    """Work out again everything that is stored and compare.  Exit code 1 when something is wrong.

    A check that is interrupted goes on where it was when it is called again, unless the databases were changed.
    """
    settings, path = prepare(resolved)
    from fastnode.chain_data import ChainData
    from fastnode.data_check import look_at_data
    from fastnode.data_check.processes import check_apart, processors

    with _ended_by_signals(), ChainData.open(path, create=False) as data, progress("checking") as advance:
        if quick:
            report = look_at_data(data)
        else:
            report = check_apart(
                data,
                processes=processes or processors(),
                progress=advance,
                release_record=settings.release_record,
            )
    counts = {"blocks": report.blocks, "checkpoints": report.checkpoints}
    if not quick:
        counts["transactions"] = report.transactions
    if as_json:
        found = {"clean": report.clean, **({"quick": True} if quick else {}), **counts}
        say(json.dumps(found | {"problems": report.problems, "notes": report.notes}, indent=2, ensure_ascii=False))
        return 0 if report.clean else 1
    for note in report.notes:
        say(f"note: {note}")
    for problem in report.problems:
        say(f"problem: {problem}")
    counted = ", ".join(f"{count} {name}" for name, count in counts.items())
    outcome = "no damage seen; without --quick everything is worked out again" if quick else "clean"
    say(f"{counted}: {outcome if report.clean else f'problems: {len(report.problems)}'}")
    return 0 if report.clean else 1


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does: what it has made on the disk is removed."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
