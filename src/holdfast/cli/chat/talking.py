"""Talking: the parts of a chat, put together for the terminal or the pipe that there is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import click

from holdfast.cli.chat.chat_loop import LEAVING, Chat
from holdfast.cli.chat.keyboard import Keyboard, PipedKeyboard
from holdfast.cli.chat.screen import Screen
from holdfast.cli.chat.sending import Sending
from holdfast.cli.common.able import is_dumb
from holdfast.cli.common.names import existing_session
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN, BusyMode
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.message_views import NewMessage
from holdfast.server.api.views.session_views import SessionView
from holdfast.server.local.client import ControlRefused, GatewayDown

_AWAY = 60.0  # seconds that a script waits for a gateway which went away
_WAIT = 15.0  # seconds for /new to be carried out


def talk(api: ApiClient, *, name: str, new: bool, mode: str | None, history: Path) -> None:
    """A chat in the session of that name, until the person leaves."""
    by_id = existing_session(api, name)

    def reopen() -> SessionView:
        return by_id or api.open_session(name)

    if new:
        begin_anew(api, reopen())
    screen = Screen(sys.stdout)
    sending = Sending(api, mode=BusyMode(mode) if mode else None, new_id=message_id)
    with _keyboard(api, screen, history=history) as keyboard:
        if sys.stdin.isatty():
            screen.line(f"{name} · Ctrl-D leaves · /help", dim=True)
        chat = Chat(
            api,
            reopen=reopen,
            screen=screen,
            keyboard=keyboard,
            sending=sending,
            patience=None if sys.stdin.isatty() else _AWAY,
        )
        chat.run()
    _farewell(sending)


def begin_anew(api: ApiClient, session: SessionView) -> None:
    """Leave the session for a fresh one of the same name."""
    if session.messages == 0:
        return
    said = api.say(session.id, NewMessage(text="/new", message_id=message_id()))
    if api.message(said.id, wait=_WAIT).state in OPEN:
        raise HoldfastError("The gateway did not begin a new conversation in time; try again.")


def message_id() -> str:
    """A name for a message that no other has, so that sending it twice is sending it once."""
    return f"cli-{uuid4().hex}"


def _keyboard(api: ApiClient, screen: Screen, *, history: Path) -> Keyboard:
    if not sys.stdin.isatty():
        return PipedKeyboard(sys.stdin)
    # Not before it is known that somebody types: readline may write to the terminal.
    from holdfast.cli.chat.terminal import TerminalKeyboard  # noqa: PLC0415 - as above

    def commands() -> Sequence[str]:
        try:
            offered = [f"/{n}" for c in api.commands() for n in (c.name, *c.aliases)]
        except (GatewayDown, ControlRefused):
            offered = []
        return sorted({*offered, *LEAVING})

    return TerminalKeyboard(screen, history=history, commands=commands, dumb=is_dumb(sys.stdout))


def _farewell(sending: Sending) -> None:
    if sending.unsent:
        raise HoldfastError(f"Not sent, because the gateway is away: {sending.unsent[-1]!r}")
    if sending.waits and sys.stdin.isatty():
        click.echo("The work goes on; `holdfast chat` comes back to it.")
