"""Watching a session: what happens in it, live, without a part in it."""

import sys

import click

from holdfast.cli.chat.chat_loop import open_conversation
from holdfast.cli.chat.screen import Screen
from holdfast.cli.common.names import find_session
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import FollowEnded, ReceivedEvent, SessionFollower, StreamLost

_HISTORY_RECORDS = 60


def follow(api: ApiClient, name: str, *, as_json: bool) -> None:
    """Until Ctrl-C, or until the session is no more."""
    session = find_session(api, name)
    try:
        if as_json:
            _print_events(api, session.id)
        else:
            _show_live(api, session.id)
    except KeyboardInterrupt:
        return


def _print_events(api: ApiClient, session_id: str) -> None:
    with SessionFollower(api, session_id, after=0, wake=_ignore_wake) as follower:
        while True:
            for what in follower.take(timeout=None):
                if isinstance(what, FollowEnded):
                    raise what.error
                if isinstance(what, ReceivedEvent):
                    click.echo(b'{"event":"%b","data":%b}' % (what.kind.encode(), what.data))


def _show_live(api: ApiClient, session_id: str) -> None:
    screen = Screen(sys.stdout)
    detail = api.read_session(session_id, limit=_HISTORY_RECORDS)
    conversation = open_conversation(detail, screen)
    after = detail.records[-1].seq if detail.records else 0
    connected = True
    with SessionFollower(api, session_id, after=after, wake=_ignore_wake) as follower:
        while True:
            for what in follower.take(timeout=None):
                match what:
                    case FollowEnded(error):
                        raise error
                    case StreamLost(why) if connected:
                        connected = False
                        screen.print_line(f"reconnecting … ({why})", fg="yellow")
                    case ReceivedEvent():
                        connected = True
                        conversation.handle_event(what)


def _ignore_wake() -> None:
    """Whoever only watches waits for the next event itself."""
