"""The command behind ``scripts/make-chain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fastnode.cli.progress import progress
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import FastnodeError

__all__ = ["make_chain"]


@click.command("make-chain", context_settings={"show_default": True, "max_content_width": 120})
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--blocks", type=int, required=True, metavar="N", help="Blocks of the chain.")
@click.option("--txs", type=int, default=4, metavar="T", help="Txs of a block.")
@click.option("--nullifiers", type=int, default=4, metavar="K", help="Nullifiers of a tx, at least 1.")
@click.option("--note-hashes", type=int, metavar="K", help="Note hashes of a tx.  [default: as many as nullifiers]")
@click.option(
    "--writes", type=int, default=2, metavar="W", help="Public data writes of a tx, half of them to known slots."
)
@click.option("--private-logs", type=int, default=1, metavar="L", help="Private logs of a tx.")
@click.option("--public-logs", type=int, default=1, metavar="L", help="Public logs of a tx.")
@click.option("--l2-to-l1", type=int, default=1, metavar="M", help="Messages to L1 of a tx.")
@click.option("--l1-to-l2", type=int, default=2, metavar="M", help="Messages from L1 of a checkpoint.")
@click.option("--blocks-per-checkpoint", type=int, default=3, metavar="B", help="Fewer when the blobs are full.")
@click.option("--proposed", type=int, default=0, metavar="P", help="Of all blocks, those behind the last checkpoint.")
@click.option("--seed", type=int, default=1, metavar="S", help="The same seed and shape give the same chain.")
@click.option("--vary", is_flag=True, help="Draw every number per tx and block up to the given one.")
@click.option("--wallets", is_flag=True, help="Txs like those of a recorded wallet; the numbers for a tx do not count.")
@click.option(
    "--commitments/--no-commitments",
    default=True,
    help="Without, the hashes of blobs are made up: a third of the time, and nothing to derive from L1.",
)
def make_chain(file: Path, **shape: Any) -> None:
    """Write a synthetic chain with true roots to the chain file FILE, compressed if its name ends in .gz.

    `fastnode import` accepts it with full verification.
    """
    try:
        with progress(f"making {file.name}") as advance:
            wanted = ChainShape(**shape)
            write_synthetic_chain(file, wanted, progress=lambda done, total: advance(done, total, f"block {done}"))
    except (FastnodeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{file}: {wanted.blocks} blocks, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    make_chain(prog_name="scripts/make-chain")
