"""`holdfast run`: start the gateway in the foreground."""

import sys

import click

from holdfast.cli.home import chosen_home, home_option


@click.command("run")
@home_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Listen here instead; 0: any free port."
)
def command(port: int | None) -> None:
    """Start the gateway and stay in front of it; Ctrl-C ends it.

    Without any configuration it listens on 127.0.0.1:8787 and answers with a demo model that
    needs no key.

    \b
    Examples:
      holdfast run
      holdfast run --home /srv/bot --port 9000
      HOLDFAST_MODEL_PROVIDER=openai HOLDFAST_MODEL_NAME=gpt-5 \\
        HOLDFAST_MODEL_API_KEY=env:OPENAI_API_KEY holdfast run
    """
    from holdfast.config import load, prepare_home  # noqa: PLC0415 - not needed for --help

    home = chosen_home()
    prepare_home(home)
    config = load(home, overrides={} if port is None else {"gateway.port": port})
    from holdfast.main import run  # noqa: PLC0415 - a wrong configuration is told before the wait

    sys.exit(run(config))
