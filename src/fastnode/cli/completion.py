"""``fastnode completion SHELL``: prints the script that teaches a shell to complete the command."""

from __future__ import annotations

import click

from fastnode.cli.output import say

__all__ = ["completion"]

#: Shells with a completion script; the command's help says where each reads it from.
_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(fastnode completion bash)"       in ~/.bashrc
    zsh:   eval "$(fastnode completion zsh)"        in ~/.zshrc
    fish:  fastnode completion fish | source        in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    made_by = get_completion_class(shell)
    if made_by is None:  # pragma: no cover - click knows all three
        raise click.UsageError(f"no completion for {shell}")
    script = made_by(context.find_root().command, {}, "fastnode", "_FASTNODE_COMPLETE")
    say(script.source())
