"""`holdfast chat` and `holdfast sessions follow`: send typed messages, show the session's events.

A message is sent once, also across restarts of the gateway.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import click

from holdfast.cli.chat.conversation import ConversationView
from holdfast.cli.chat.keyboard import Keyboard, LineKeyboard, PipedKeyboard, WakeReason
from holdfast.cli.chat.screen import Screen, closing_screen, open_screen
from holdfast.cli.common.connection import api_client_for, find_session, get_session
from holdfast.cli.common.options import (
    BUSY_MODES,
    chosen_home,
    complete_session,
    home_option,
    require_name,
)
from holdfast.cli.common.output import is_dumb
from holdfast.core.commands import parse_command_word, text_for_agent
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN_STATES, BusyMode
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.text.translation import _, _n
from holdfast.server.api.client import (
    ApiClient,
    FollowEnded,
    FollowerItem,
    ReceivedEvent,
    SessionFollower,
    StreamLost,
)
from holdfast.server.api.views.sessions import (
    EndedEvent,
    MessageView,
    NewMessage,
    RecordView,
    SessionDetail,
    SessionView,
)
from holdfast.server.local.control_client import GatewayDown, GatewayRefused

DEFAULT_SESSION = "terminal"
HISTORY_FILE = "chat_history"


@click.command("chat")
@home_option
@click.option(
    "--session",
    "name",
    metavar="NAME",
    default=DEFAULT_SESSION,
    show_default=True,
    callback=require_name,
    shell_complete=complete_session,
    help="The conversation: a name of your choice, or an id from `holdfast sessions list`.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Start a new conversation with this name; the old conversation is kept.",
)
@click.option(
    "--mode",
    type=click.Choice(BUSY_MODES),
    help="What a message does that you send while a reply is running.",
)
def command(name: str, new: bool, mode: str | None) -> None:
    """Talk to the agent, and continue where you left off.

    \b
    Ctrl-C   stops the running reply; at the prompt, clears the line
    Ctrl-D   leaves the chat; the agent keeps working, and `holdfast chat` returns to it
    Tab      completes /commands; the arrow keys recall earlier messages
    \\        at the end of a line continues on the next; \"\"\" begins and ends a block

    A message that you type while a reply is running is sent at once; --mode says what it does.

    \b
    Examples:
      holdfast chat
      holdfast chat --session ops
      holdfast chat --new
    """
    home = chosen_home()
    run_chat(api_client_for(home), name=name, new=new, mode=mode, history=home / HISTORY_FILE)


@dataclass(kw_only=True)
class TypedMessage:
    """A typed message. `id` is its id in the gateway; None: not accepted yet."""

    message: NewMessage
    id: int | None = None
    answers_approval: bool = False  # such a message is for the gateway, not for the agent

    @property
    def is_command(self) -> bool:
        return self.answers_approval or text_for_agent(self.message.text) is None


class ChatOutbox:
    """Owns the typed messages that have not ended. `new_id` makes idempotency keys: a message
    that is sent twice is accepted once."""

    def __init__(self, api: ApiClient, *, mode: BusyMode | None, new_id: Callable[[], str]) -> None:
        self._api = api
        self._mode = mode
        self._new_id = new_id
        self._open: list[TypedMessage] = []

    @property
    def has_open(self) -> bool:
        """Whether a message has not ended yet."""
        return bool(self._open)

    @property
    def unsent(self) -> list[str]:
        return [sent.message.text for sent in self._open if sent.id is None]

    def add(self, text: str, *, answers_approval: bool = False) -> None:
        message = NewMessage(text=text, message_id=self._new_id(), mode=self._mode)
        self._open.append(TypedMessage(message=message, answers_approval=answers_approval))

    def send(self, session_id: str) -> None:
        """Sends the unsent messages in order; after an error they stay for the next attempt."""
        for sent in self._open:
            if sent.id is None:
                sent.id = self._api.send_message(session_id, sent.message).id

    def drop_unsent(self) -> None:
        self._open = [sent for sent in self._open if sent.id is not None]

    def take_ended(self) -> Iterator[tuple[TypedMessage, MessageView]]:
        """The messages that have ended since the last call, each with its result."""
        for sent in tuple(self._open):
            if sent.id is None:
                continue
            try:
                view = self._api.read_message(sent.id)
            except GatewayDown:
                return  # the next connection asks again
            if view.state not in OPEN_STATES:
                self._open.remove(sent)
                yield sent, view


QUIT_COMMANDS = frozenset({"/quit", "/exit"})
_HISTORY_RECORDS = 60  # read for the history on the screen
_HTTP_CONFLICT = 409
_QUESTIONS_SHOWN = 2  # the last questions, with their answers


class ChatLoop:
    """Owns the view of one session, from the first screen until the user leaves.

    `reopen` returns the current session: a command may have started another one. Waits up to
    `max_downtime` seconds for a gateway that is down; None: until the user leaves.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        reopen: Callable[[], SessionView],
        screen: Screen,
        keyboard: Keyboard,
        outbox: ChatOutbox,
        max_downtime: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._reopen = reopen
        self._screen = screen
        self._keyboard = keyboard
        self._outbox = outbox
        self._max_downtime = max_downtime
        self._now = now
        self._lost_at = 0.0
        self._session_id = ""
        self._conversation = ConversationView(screen)
        self._connected = True
        self._caught_up = False  # all missed events have come since the last connection
        self._answered_approvals: set[str] = set()  # approvals that were answered here
        self._stale = False  # another session may have replaced this one

    def run(self) -> None:
        """Until the user leaves; raises a permanent error of the gateway."""
        detail: SessionDetail | None = self._load_session()
        while detail is not None:
            detail = self._converse(detail)

    def _load_session(self) -> SessionDetail:
        return self._api.read_session(self._reopen().id, limit=_HISTORY_RECORDS)

    def _converse(self, detail: SessionDetail) -> SessionDetail | None:
        """Returns the session that replaced this one; None: the user left."""
        self._session_id, self._caught_up = detail.session.id, False
        self._conversation = open_conversation(detail, self._screen)
        after = detail.records[-1].seq if detail.records else 0
        wake = self._keyboard.wake
        with SessionFollower(self._api, self._session_id, after=after, wake=wake) as follower:
            while True:
                for item in follower.take():
                    self._handle_event(item)
                if self._stale and (other := self._load_replacement()) is not None:
                    return other
                if not self._wait_for_input():
                    return None

    def _load_replacement(self) -> SessionDetail | None:
        """The session that replaced this one; None: none did, or the gateway is down."""
        try:
            detail = self._load_session()
        except GatewayDown:
            return None  # it stays stale, and is checked again
        self._stale = False
        return detail if detail.session.id != self._session_id else None

    def _wait_for_input(self) -> bool:
        """Waits for the next event or input; False: the user leaves."""
        done = not self._outbox.has_open and not self._conversation.running
        ready = done or bool(self._conversation.pending_approvals - self._answered_approvals)
        match self._keyboard.wait(ready=ready and self._connected):
            case WakeReason.INTERRUPT:
                return self._handle_interrupt()
            case WakeReason.INPUT:
                return self._read_input()
        return True

    def _read_input(self) -> bool:
        try:
            text = self._keyboard.read()
        except EOFError:
            return False
        if text.strip() in QUIT_COMMANDS:
            return False
        if text.strip():
            answers = (
                bool(self._conversation.pending_approvals) and parse_command_word(text) is not None
            )
            if answers:
                self._answered_approvals |= self._conversation.pending_approvals
            agent_text = text_for_agent(text)  # messages for the gateway leave no record
            if agent_text is not None and not answers:
                self._conversation.add_typed(agent_text)
            self._outbox.add(text, answers_approval=answers)
            self._send_unsent()
        return True

    def _handle_interrupt(self) -> bool:
        """Ctrl-C: stops the running turn. Without a gateway, the chat ends."""
        if not self._connected:
            return False
        if not (self._outbox.has_open or self._conversation.running):
            self._screen.print_line(_("Ctrl-D leaves the chat."), style="dim")
            return True
        try:
            self._api.stop(self._session_id)
        except (GatewayDown, GatewayRefused) as error:
            self._screen.print_line(error.for_person(), style="red")
        return True

    def _send_unsent(self) -> None:
        try:
            self._outbox.send(self._session_id)
        except GatewayDown:
            self._screen.print_line(
                _("The message will be sent when the gateway is back."), style="dim"
            )
        except GatewayRefused as refused:
            # Another session may have replaced this one: then it is sent there.
            self._stale = refused.status == _HTTP_CONFLICT and self._is_replaced()
            if not self._stale:
                self._outbox.drop_unsent()
                self._screen.print_line(refused.for_person(), style="red")

    def _is_replaced(self) -> bool:
        try:
            return self._reopen().id != self._session_id
        except GatewayDown:
            return True  # unknown: the message stays queued and is sent again

    def _handle_event(self, item: FollowerItem) -> None:
        match item:
            case FollowEnded(error):
                raise error
            case StreamLost(error):
                self._show_connection_lost(error)
            case _:
                self._conversation.handle_event(item)
                if item.kind == "live" and not self._caught_up:
                    self._handle_reconnected()
                if isinstance(item.body, EndedEvent):
                    self._show_ended()
                self._stale = self._stale or not self._conversation.current

    def _show_ended(self) -> None:
        for sent, message in self._outbox.take_ended():
            self._conversation.show_end(message, of_command=sent.is_command)
            self._stale = self._stale or sent.is_command

    def _show_connection_lost(self, error: GatewayDown) -> None:
        self._caught_up = False
        if self._connected:
            self._connected, self._lost_at = False, self._now()
            self._screen.print_line(_reconnecting_text(error), style="yellow")
        elif self._max_downtime is not None and self._now() - self._lost_at > self._max_downtime:
            raise error

    def _handle_reconnected(self) -> None:
        """The end of a message is reported once: the missed ones are requested."""
        self._caught_up = True
        if not self._connected:
            self._connected = True
            self._screen.print_line(_("connected again"), style="green")
        if self._outbox.unsent:
            self._send_unsent()
        self._show_ended()


def open_conversation(
    detail: SessionDetail, screen: Screen, *, questions: int = _QUESTIONS_SHOWN
) -> ConversationView:
    """A view of the conversation, with its last questions and answers on the screen."""
    shown = _latest_records(detail.records, questions)
    left_out = detail.session.messages - len(shown)
    if shown and left_out > 0:
        text = _n(
            "… {n} earlier message: holdfast sessions show {session}",
            "… {n} earlier messages: holdfast sessions show {session}",
            left_out,
        )
        screen.print_line(text.format(n=left_out, session=detail.session.id), style="dim")
    conversation = ConversationView(screen)
    for record in shown:
        conversation.show_record(record)
    conversation.running = detail.live is not None and not detail.live.idle
    return conversation


def _latest_records(records: list[RecordView], questions: int) -> list[RecordView]:
    asked = [at for at, record in enumerate(records) if isinstance(record.message, UserMessage)]
    return records[asked[-questions] if len(asked) >= questions else 0 :] if questions else []


_MAX_GATEWAY_DOWNTIME = 60.0  # seconds that a script waits for the gateway
_NEW_SESSION_TIMEOUT = 15.0  # seconds for /new


def run_chat(api: ApiClient, *, name: str, new: bool, mode: str | None, history: Path) -> None:
    """Runs a chat in the session of that name, until the user leaves."""
    by_id = get_session(api, name)

    def reopen() -> SessionView:
        return by_id or api.open_session(name)

    if new:
        start_new_session(api, reopen())
    screen = open_screen(sys.stdout)
    outbox = ChatOutbox(api, mode=BusyMode(mode) if mode else None, new_id=new_message_id)
    with closing_screen(screen), _open_keyboard(api, screen, history=history) as keyboard:
        if sys.stdin.isatty():
            hint = _("{session} · Ctrl-D leaves the chat · /help")
            screen.print_line(hint.format(session=name), style="dim")
        chat = ChatLoop(
            api,
            reopen=reopen,
            screen=screen,
            keyboard=keyboard,
            outbox=outbox,
            max_downtime=None if sys.stdin.isatty() else _MAX_GATEWAY_DOWNTIME,
        )
        chat.run()
    _report_unfinished(outbox)


def start_new_session(api: ApiClient, session: SessionView) -> None:
    """Replaces the session by a new one of the same name."""
    if session.messages == 0:
        return
    sent = api.send_message(session.id, NewMessage(text="/new", message_id=new_message_id()))
    if api.read_message(sent.id, wait=_NEW_SESSION_TIMEOUT).state in OPEN_STATES:
        raise HoldfastError(
            "The gateway did not start a new conversation within {seconds} s. Try again.",
            seconds=f"{_NEW_SESSION_TIMEOUT:.0f}",
        )


def new_message_id() -> str:
    """A unique id: a message that is sent twice with it is accepted once."""
    return f"cli-{uuid4().hex}"


def _open_keyboard(api: ApiClient, screen: Screen, *, history: Path) -> Keyboard:
    if not sys.stdin.isatty():
        return PipedKeyboard(sys.stdin)
    if is_dumb(sys.stdout):
        return LineKeyboard(screen)
    from holdfast.cli.chat.terminal import TerminalKeyboard  # noqa: PLC0415 - not for a pipe

    def commands() -> Sequence[str]:
        try:
            offered = [f"/{n}" for c in api.list_commands() for n in (c.name, *c.aliases)]
        except (GatewayDown, GatewayRefused):
            offered = []
        return sorted({*offered, *QUIT_COMMANDS})

    return TerminalKeyboard(screen, history=history, commands=commands)


def _report_unfinished(outbox: ChatOutbox) -> None:
    if outbox.unsent:
        raise HoldfastError(
            "Not sent, because the gateway is down: {message!r}. Send it again when the gateway "
            "is running.",
            message=outbox.unsent[-1],
        )
    if outbox.has_open and sys.stdin.isatty():
        click.echo(_("The agent keeps working; `holdfast chat` returns to it."))


def follow(api: ApiClient, name: str, *, as_json: bool) -> None:
    """Until Ctrl-C, or until the session is deleted."""
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
            for item in follower.take(timeout=None):
                if isinstance(item, FollowEnded):
                    raise item.error
                if isinstance(item, ReceivedEvent):
                    click.echo(b'{"event":"%b","data":%b}' % (item.kind.encode(), item.data))


def _show_live(api: ApiClient, session_id: str) -> None:
    screen = open_screen(sys.stdout)
    detail = api.read_session(session_id, limit=_HISTORY_RECORDS)
    conversation = open_conversation(detail, screen)
    after = detail.records[-1].seq if detail.records else 0
    connected = True
    follower = SessionFollower(api, session_id, after=after, wake=_ignore_wake)
    with closing_screen(screen), follower:
        while True:
            for item in follower.take(timeout=None):
                match item:
                    case FollowEnded(error):
                        raise error
                    case StreamLost(error) if connected:
                        connected = False
                        screen.print_line(_reconnecting_text(error), style="yellow")
                    case ReceivedEvent():
                        connected = True
                        conversation.handle_event(item)


def _reconnecting_text(error: GatewayDown) -> str:
    return _("reconnecting … ({reason})").format(reason=error.for_person())


def _ignore_wake() -> None:
    """There is no input: `take` waits for the next event."""
