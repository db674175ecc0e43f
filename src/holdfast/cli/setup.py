"""`holdfast setup`: from nothing to a model that answers."""

import sys

import click

from holdfast.cli.home import chosen_home, home_option

_DOORS = ("telegram",)
_PROVIDERS = ("anthropic", "openai", "openrouter", "local", "demo")


@click.command("setup")
@home_option
@click.option("--provider", type=click.Choice(_PROVIDERS), help="Who runs the model.")
@click.option("--name", help="The model.  [default: the provider's usual one]")
@click.option("--base-url", metavar="URL", help="Another address than the provider's own.")
@click.option(
    "--key-from-env", metavar="NAME", help="Take the key from this variable and keep it in .env."
)
@click.option("--door", type=click.Choice(_DOORS), help="Set up a chat platform instead.")
@click.option("--no-test", is_flag=True, help="Do not try whether the model, or the bot, answers.")
def command(
    provider: str | None,
    name: str | None,
    base_url: str | None,
    key_from_env: str | None,
    door: str | None,
    no_test: bool,
) -> None:
    """Choose a model, try it, and write it down.

    Asks what it needs to know; with --provider it asks nothing. The choice goes into [model] of
    holdfast.toml, where nothing else is touched, and the key into .env in the home, which only
    you can read. No gateway has to run for this.

    With --door it asks for the token of a bot instead, or takes it with --key-from-env, tries it,
    and adds the platform.

    \b
    Examples:
      holdfast setup
      holdfast setup --provider anthropic --key-from-env ANTHROPIC_API_KEY
      holdfast setup --provider local --base-url http://127.0.0.1:8080/v1 --name qwen3
      holdfast setup --door telegram
    """
    from holdfast.cli.choosing import Given, ask_person, from_options  # noqa: PLC0415 - no --help
    from holdfast.cli.installing import install  # noqa: PLC0415 - as above

    home = chosen_home()
    if door is not None:
        from holdfast.cli import telegram_setup  # noqa: PLC0415 - as above

        telegram_setup.install(
            home, token_from_env=key_from_env, base_url=base_url, test=not no_test
        )
        return
    given = Given(provider=provider, name=name, base_url=base_url, key_from_env=key_from_env)
    if provider is not None:
        install(home, from_options(given), test=not no_test, ask=False)
    elif sys.stdin.isatty():
        install(home, ask_person(home, given), test=not no_test, ask=True)
    else:
        raise click.UsageError("Nobody is here to answer: say at least --provider.")
