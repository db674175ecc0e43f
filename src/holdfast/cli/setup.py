"""`holdfast setup`: from nothing to a model that answers."""

import sys

import click

from holdfast.cli.home import chosen_home, home_option

_PROVIDERS = ("anthropic", "openai", "openrouter", "local", "demo")


@click.command("setup")
@home_option
@click.option("--provider", type=click.Choice(_PROVIDERS), help="Who runs the model.")
@click.option("--name", help="The model.  [default: the provider's usual one]")
@click.option("--base-url", metavar="URL", help="Another address than the provider's own.")
@click.option(
    "--key-from-env", metavar="NAME", help="Take the key from this variable and keep it in .env."
)
@click.option("--no-test", is_flag=True, help="Do not call the model to see whether it answers.")
def command(
    provider: str | None,
    name: str | None,
    base_url: str | None,
    key_from_env: str | None,
    no_test: bool,
) -> None:
    """Choose a model, try it, and write it down.

    Asks what it needs to know; with --provider it asks nothing. The choice goes into [model] of
    holdfast.toml, where nothing else is touched, and the key into .env in the home, which only
    you can read. No gateway has to run for this.

    \b
    Examples:
      holdfast setup
      holdfast setup --provider anthropic --key-from-env ANTHROPIC_API_KEY
      holdfast setup --provider local --base-url http://127.0.0.1:8080/v1 --name qwen3
    """
    from holdfast.cli.choosing import Given, ask_person, from_options  # noqa: PLC0415 - no --help
    from holdfast.cli.installing import install  # noqa: PLC0415 - as above

    given = Given(provider=provider, name=name, base_url=base_url, key_from_env=key_from_env)
    home = chosen_home()
    if provider is not None:
        install(home, from_options(given), test=not no_test, ask=False)
    elif sys.stdin.isatty():
        install(home, ask_person(home, given), test=not no_test, ask=True)
    else:
        raise click.UsageError("Nobody is here to answer: say at least --provider.")
