"""`stepscope completion`: lets a shell complete commands, options, choices and columns."""

from __future__ import annotations

import click
from click.shell_completion import shell_complete


@click.command(name="completion", short_help="Prints a script for completion in the shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Prints a script that makes a shell complete this command.

    \b
    bash, in ~/.bashrc:   eval "$(stepscope completion bash)"
    zsh, in ~/.zshrc:     eval "$(stepscope completion zsh)"
    fish, in ~/.config/fish/config.fish:   stepscope completion fish | source

    It completes commands, options, choices such as those of --by, columns after -c and --sort, and files.
    bash must be 4.4 or newer.
    """
    from stepscope.cli.main import COMPLETE_VARIABLE, commands

    shell_complete(commands, {}, "stepscope", COMPLETE_VARIABLE, f"{shell}_source")
