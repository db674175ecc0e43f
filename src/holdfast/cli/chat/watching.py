"""Watching a session: what happens in it, live, without a part in it."""

import sys

import click

from holdfast.cli.chat.chat_loop import opened
from holdfast.cli.chat.screen import Screen
from holdfast.cli.common.names import find_session
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import Ended, Follower, Happened, Lost

_EARLIER = 60


def watch(api: ApiClient, name: str, *, as_json: bool) -> None:
    """Until Ctrl-C, or until the session is no more."""
    session = find_session(api, name)
    try:
        if as_json:
            _print_events(api, session.id)
        else:
            _show(api, session.id)
    except KeyboardInterrupt:
        return


def _print_events(api: ApiClient, session_id: str) -> None:
    with Follower(api, session_id, after=0, wake=_nothing) as follower:
        while True:
            for what in follower.take(timeout=None):
                if isinstance(what, Ended):
                    raise what.error
                if isinstance(what, Happened):
                    click.echo(b'{"event":"%b","data":%b}' % (what.kind.encode(), what.data))


def _show(api: ApiClient, session_id: str) -> None:
    screen = Screen(sys.stdout)
    detail = api.session(session_id, limit=_EARLIER)
    conversation = opened(detail, screen)
    after = detail.records[-1].seq if detail.records else 0
    connected = True
    with Follower(api, session_id, after=after, wake=_nothing) as follower:
        while True:
            for what in follower.take(timeout=None):
                match what:
                    case Ended(error):
                        raise error
                    case Lost(why) if connected:
                        connected = False
                        screen.line(f"reconnecting … ({why})", fg="yellow")
                    case Happened():
                        connected = True
                        conversation.take(what)


def _nothing() -> None:
    """Whoever only watches waits for the next event itself."""
