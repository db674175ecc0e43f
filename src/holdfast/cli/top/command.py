"""`holdfast top`: what the gateway is doing, live."""

import sys
import time

import click

from holdfast.cli.common.able import is_coloured, is_dumb
from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.status.status_looked import render_status as look_once
from holdfast.cli.top.frame import render_frame, render_plain
from holdfast.cli.top.ink import to_ansi
from holdfast.cli.top.keys import TopKey
from holdfast.cli.top.sight import StatusSample, read_sample
from holdfast.cli.top.terminal import FullScreenTerminal
from holdfast.cli.top.view import TopView, apply_key
from holdfast.system.paths import Paths


@click.command("top")
@home_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a line of JSON at each look, until Ctrl-C; with --once, one.",
)
@click.option("--once", is_flag=True, help="Look once, print it, and exit as `status` does.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait between two looks.",
)
def command(as_json: bool, once: bool, every: float) -> None:
    """Watch the gateway at work.

    How it is, what it did in the last hour, and the turns that are open, with their session,
    step and tools. It waits for a gateway that is down, and stays across restarts. Keys: q quits,
    arrows or j and k choose a turn, enter shows all of it, p pauses the screen, ? helps. Where
    there is no terminal to draw on, it looks once, but for --json.

    \b
    Examples:
      holdfast top
      holdfast top --every 0.5
      holdfast top --once
      holdfast top --json --every 60
    """
    paths = Paths(chosen_home())
    if as_json:
        _print_json_lines(paths, once=once, every=every)
    elif once or is_dumb(sys.stdout) or not sys.stdin.isatty():
        _print_once(read_sample(paths, now=time.time()))
    else:
        with FullScreenTerminal(coloured=is_coloured(sys.stdout)) as terminal:
            _run_live(paths, terminal, every=every)


def _print_once(sample: StatusSample) -> None:
    coloured = is_coloured(sys.stdout)
    for line in render_plain(sample):
        click.echo(to_ansi(line, coloured=coloured), err=sample.document is None)
    sys.exit(sample.exit_code)


def _print_json_lines(paths: Paths, *, once: bool, every: float) -> None:
    """What `status --json` prints, one document a line."""
    try:
        while True:
            text, code = look_once(paths, as_json=True)
            click.echo(text)
            if once:
                sys.exit(code)
            time.sleep(every)
    except KeyboardInterrupt:
        return


def _run_live(paths: Paths, terminal: FullScreenTerminal, *, every: float) -> None:
    view, sight = TopView(), read_sample(paths, now=time.time())
    due = time.monotonic() + every
    while True:
        terminal.draw(render_frame(sight, view, terminal.size))
        left = None if view.paused else max(0.0, due - time.monotonic())
        typed = terminal.wait(left)
        if TopKey.QUIT in typed:
            return
        for key in typed:
            view = apply_key(view, key, sight.turns)
        if TopKey.REFRESH in typed or (not view.paused and time.monotonic() >= due):
            sight = read_sample(paths, now=time.time())
            due = time.monotonic() + every
