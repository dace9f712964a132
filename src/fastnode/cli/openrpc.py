"""``fastnode openrpc``: the interface of both ports as an OpenRPC document."""

from __future__ import annotations

import click

from fastnode.cli.output import say

__all__ = ["openrpc"]


@click.command()
@click.option(
    "--method-set",
    type=click.Choice(("both", "release", "development", "5.x", "6.x")),
    default="both",
    show_default=True,
    help="Which generation of methods is described.",
)
def openrpc(method_set: str) -> None:
    """Print the OpenRPC document of all methods of both ports."""
    import orjson

    from fastnode.api.openrpc import document
    from fastnode.app.ground.method_documentation import all_methods

    text = orjson.dumps(document(all_methods(), method_set), option=orjson.OPT_INDENT_2)  # type: ignore[arg-type]
    say(text.decode())
