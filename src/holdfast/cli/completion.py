"""`holdfast completion`: the script that teaches a shell our commands."""

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print a completion script for your shell.

    \b
    bash, in ~/.bashrc:                      eval "$(holdfast completion bash)"
    zsh, in ~/.zshrc, after compinit:        eval "$(holdfast completion zsh)"
    fish, once:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - not for --help

    from holdfast.cli.root import cli  # noqa: PLC0415 - the root imports this module's name

    kind = get_completion_class(shell)
    assert kind is not None, "click knows every shell that is offered"
    click.echo(kind(cli, {}, "holdfast", "_HOLDFAST_COMPLETE").source())
