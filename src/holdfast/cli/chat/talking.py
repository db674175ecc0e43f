"""Talking: the parts of a chat, put together for the terminal or the pipe that there is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import click

from holdfast.cli.chat.chat_loop import QUIT_COMMANDS, ChatLoop
from holdfast.cli.chat.keyboard import Keyboard, PipedKeyboard
from holdfast.cli.chat.screen import Screen
from holdfast.cli.chat.sending import ChatOutbox
from holdfast.cli.common.able import is_dumb
from holdfast.cli.common.names import get_session
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN_STATES, BusyMode
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.message_views import NewMessage
from holdfast.server.api.views.session_views import SessionView
from holdfast.server.local.client import GatewayDown, GatewayRefused

_MAX_GATEWAY_DOWNTIME = 60.0  # seconds that a script waits for a gateway which went away
_NEW_SESSION_TIMEOUT = 15.0  # seconds for /new to be carried out


def run_chat(api: ApiClient, *, name: str, new: bool, mode: str | None, history: Path) -> None:
    """A chat in the session of that name, until the person leaves."""
    by_id = get_session(api, name)

    def reopen() -> SessionView:
        return by_id or api.open_session(name)

    if new:
        start_new_session(api, reopen())
    screen = Screen(sys.stdout)
    sending = ChatOutbox(api, mode=BusyMode(mode) if mode else None, new_id=new_message_id)
    with _open_keyboard(api, screen, history=history) as keyboard:
        if sys.stdin.isatty():
            screen.print_line(f"{name} · Ctrl-D leaves · /help", dim=True)
        chat = ChatLoop(
            api,
            reopen=reopen,
            screen=screen,
            keyboard=keyboard,
            outbox=sending,
            max_downtime=None if sys.stdin.isatty() else _MAX_GATEWAY_DOWNTIME,
        )
        chat.run()
    _report_unfinished(sending)


def start_new_session(api: ApiClient, session: SessionView) -> None:
    """Leave the session for a fresh one of the same name."""
    if session.messages == 0:
        return
    said = api.send_message(session.id, NewMessage(text="/new", message_id=new_message_id()))
    if api.read_message(said.id, wait=_NEW_SESSION_TIMEOUT).state in OPEN_STATES:
        raise HoldfastError("The gateway did not begin a new conversation in time; try again.")


def new_message_id() -> str:
    """A name for a message that no other has, so that sending it twice is sending it once."""
    return f"cli-{uuid4().hex}"


def _open_keyboard(api: ApiClient, screen: Screen, *, history: Path) -> Keyboard:
    if not sys.stdin.isatty():
        return PipedKeyboard(sys.stdin)
    # Not before it is known that somebody types: readline may write to the terminal.
    from holdfast.cli.chat.terminal import TerminalKeyboard  # noqa: PLC0415 - as above

    def commands() -> Sequence[str]:
        try:
            offered = [f"/{n}" for c in api.list_commands() for n in (c.name, *c.aliases)]
        except (GatewayDown, GatewayRefused):
            offered = []
        return sorted({*offered, *QUIT_COMMANDS})

    return TerminalKeyboard(screen, history=history, commands=commands, dumb=is_dumb(sys.stdout))


def _report_unfinished(outbox: ChatOutbox) -> None:
    if outbox.unsent:
        raise HoldfastError(f"Not sent, because the gateway is away: {outbox.unsent[-1]!r}")
    if outbox.has_open and sys.stdin.isatty():
        click.echo("The work goes on; `holdfast chat` comes back to it.")
