"""The chat: what is typed goes to the gateway, and what happens there comes to the screen."""

import time
from collections.abc import Callable

from holdfast.cli.chat.conversation import ConversationView
from holdfast.cli.chat.keyboard import Keyboard, WakeReason
from holdfast.cli.chat.screen import Screen
from holdfast.cli.chat.sending import ChatOutbox
from holdfast.core.messages.message import UserMessage
from holdfast.core.people.commands import parse_command_word
from holdfast.gateway.commands.command import text_for_agent
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import FollowEnded, FollowerItem, SessionFollower, StreamLost
from holdfast.server.api.views.event_views import EndedEvent
from holdfast.server.api.views.session_views import RecordView, SessionDetail, SessionView
from holdfast.server.local.client import GatewayDown, GatewayRefused

QUIT_COMMANDS = frozenset({"/quit", "/exit"})
_HISTORY_RECORDS = 60  # records that are looked at for what was said before
_HTTP_CONFLICT = 409
_QUESTIONS_SHOWN = 2  # how many of those are shown, with what came of them


class ChatLoop:
    """Owns one person's view of a session, from the first look to leaving.

    `reopen` gives the session as it is now, for a command may have begun another. A gateway that
    is away is waited for, `patience` seconds at the most; None: until the person leaves.
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
        self._caught_up = False  # since the connection was made, all that was missed has come
        self._answered_approvals: set[str] = set()  # approvals that were answered here
        self._stale = False  # the session may have been left for another

    def run(self) -> None:
        """Until the person leaves; raises what the gateway refuses for good."""
        detail: SessionDetail | None = self._load_session()
        while detail is not None:
            detail = self._converse(detail)

    def _load_session(self) -> SessionDetail:
        return self._api.read_session(self._reopen().id, limit=_HISTORY_RECORDS)

    def _converse(self, detail: SessionDetail) -> SessionDetail | None:
        """Returns the session that took this one's place; None: the person left."""
        self._session_id, self._caught_up = detail.session.id, False
        self._conversation = open_conversation(detail, self._screen)
        after = detail.records[-1].seq if detail.records else 0
        wake = self._keyboard.wake
        with SessionFollower(self._api, self._session_id, after=after, wake=wake) as follower:
            while True:
                for what in follower.take():
                    self._handle_event(what)
                if self._stale and (other := self._load_replacement()) is not None:
                    return other
                if not self._wait_for_input():
                    return None

    def _load_replacement(self) -> SessionDetail | None:
        """The session that took this one's place, if one did and the gateway is there to say."""
        try:
            detail = self._load_session()
        except GatewayDown:
            return None  # it stays stale, and is looked at again
        self._stale = False
        return detail if detail.session.id != self._session_id else None

    def _wait_for_input(self) -> bool:
        """Wait for whatever comes next; False: the person leaves."""
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
            said = text_for_agent(text)  # what is for the gateway leaves no record
            if said is not None and not answers:
                self._conversation.add_typed(said)
            self._outbox.add(text, answers_approval=answers)
            self._send_unsent()
        return True

    def _handle_interrupt(self) -> bool:
        """Ctrl-C: stops what runs. With nobody to tell, it leaves."""
        if not self._connected:
            return False
        if not (self._outbox.has_open or self._conversation.running):
            self._screen.print_line("Ctrl-D leaves.", dim=True)
            return True
        try:
            self._api.stop(self._session_id)
        except (GatewayDown, GatewayRefused) as error:
            self._screen.print_line(str(error), fg="red")
        return True

    def _send_unsent(self) -> None:
        try:
            self._outbox.send(self._session_id)
        except GatewayDown:
            self._screen.print_line("It is sent as soon as the gateway is back.", dim=True)
        except GatewayRefused as refused:
            # Somebody may have gone on to another session meanwhile: then it is said there.
            self._stale = refused.status == _HTTP_CONFLICT and self._is_replaced()
            if not self._stale:
                self._outbox.drop_unsent()
                self._screen.print_line(str(refused), fg="red")

    def _is_replaced(self) -> bool:
        try:
            return self._reopen().id != self._session_id
        except GatewayDown:
            return True  # nobody can say: it is kept, and tried again

    def _handle_event(self, item: FollowerItem) -> None:
        match item:
            case FollowEnded(error):
                raise error
            case StreamLost(why):
                self._show_connection_lost(why)
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

    def _show_connection_lost(self, reason: str) -> None:
        self._caught_up = False
        if self._connected:
            self._connected, self._lost_at = False, self._now()
            self._screen.print_line(f"reconnecting … ({reason})", fg="yellow")
        elif self._max_downtime is not None and self._now() - self._lost_at > self._max_downtime:
            raise GatewayDown(reason)

    def _handle_reconnected(self) -> None:
        """Ends are told once and not again: those that nobody heard are asked for."""
        self._caught_up = True
        if not self._connected:
            self._connected = True
            self._screen.print_line("connected again", fg="green")
        if self._outbox.unsent:
            self._send_unsent()
        self._show_ended()


def open_conversation(
    detail: SessionDetail, screen: Screen, *, questions: int = _QUESTIONS_SHOWN
) -> ConversationView:
    """A conversation with the end of what was said in it on the screen."""
    shown = _latest_records(detail.records, questions)
    left_out = detail.session.messages - len(shown)
    if shown and left_out > 0:
        screen.print_line(
            f"… {left_out} earlier: holdfast sessions show {detail.session.id}", dim=True
        )
    conversation = ConversationView(screen)
    for record in shown:
        conversation.show_record(record)
    conversation.running = detail.live is not None and not detail.live.idle
    return conversation


def _latest_records(records: list[RecordView], questions: int) -> list[RecordView]:
    asked = [at for at, record in enumerate(records) if isinstance(record.message, UserMessage)]
    return records[asked[-questions] if len(asked) >= questions else 0 :] if questions else []
