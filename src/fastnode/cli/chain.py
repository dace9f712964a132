"""Commands on a data directory: ``import``, ``export`` and ``db check``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import click

from fastnode.cli.options import LoggingCommand, with_settings
from fastnode.cli.output import say
from fastnode.cli.progress import Advance, progress
from fastnode.config.resolve import Resolved
from fastnode.config.settings import CHECK, EXPORT, IMPORT, Settings
from fastnode.errors import SettingError

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


def _in_blocks(advance: Advance) -> Callable[[int, int], None]:
    """``advance`` for work that counts blocks."""
    return lambda done, total: advance(done, total, f"{done} of {total} blocks")


@click.command("import", short_help="Load a chain file into a data directory.", cls=LoggingCommand)
@click.argument("file", type=click.Path(path_type=Path))
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


@click.command("export", short_help="Write the stored chain to a chain file.", cls=LoggingCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "first", type=click.IntRange(min=1), metavar="N", help="First block.  [default: 1]")
@click.option("--to", "last", type=click.IntRange(min=1), metavar="N", help="Last block.  [default: the newest]")
@with_settings(EXPORT)
def export_chain(resolved: Resolved[Settings], file: Path, first: int | None, last: int | None) -> None:
    """Write the stored chain to the chain file FILE, compressed if its name ends in .gz.

    Blocks come in whole checkpoints: the file begins with the checkpoint of the first block.
    """
    _, path = prepare(resolved)
    from fastnode.chain_data import ChainData
    from fastnode.sources.chain_export import export_chain_file

    with (
        ChainData.open(path, create=False) as data,
        data.store.open_view() as view,
        progress(f"exporting {file.name}") as advance,
    ):
        summary = export_chain_file(view, file, first_block=first or 1, last_block=last, progress=_in_blocks(advance))
    say(f"blocks {summary.first_block} to {summary.last_block}, {summary.checkpoints} whole checkpoints")


@click.group("db")
def database() -> None:
    """Look after the databases of a data directory."""


@database.command(cls=LoggingCommand)
@click.option(
    "--quick", is_flag=True, help="Look for damage alone: checksums, roots and some leaves, a second per gigabyte."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@with_settings(CHECK)
def check(resolved: Resolved[Settings], quick: bool, as_json: bool) -> int:
    """Work out again everything that is stored and compare.  Exit code 1 when something is wrong."""
    _, path = prepare(resolved)
    from fastnode.chain_data import ChainData
    from fastnode.data_check import check_data, look_at_data

    with ChainData.open(path, create=False) as data, progress("checking") as advance:
        if quick:
            report = look_at_data(data)
        else:
            report = check_data(
                data,
                on_chain=_in_blocks(advance),
                on_indexes=lambda done, total: advance(done, total, f"{done} of {total} blocks of the indexes"),
                on_state=lambda done, total: advance(done, total, f"{done} of {total} leaves of the state"),
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
