"""The chat: what is typed goes to the gateway, and what happens there comes to the screen."""

import time
from collections.abc import Callable

from holdfast.cli.chat.conversation import Conversation
from holdfast.cli.chat.keyboard import Keyboard, Wake
from holdfast.cli.chat.screen import Screen
from holdfast.cli.chat.sending import Sending
from holdfast.core.messages.message import UserMessage
from holdfast.core.people.commands import spoken
from holdfast.gateway.commands.command import said_to_agent
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.following import Ended, Followed, Follower, Lost
from holdfast.server.api.views.event_views import EndedEvent
from holdfast.server.api.views.session_views import RecordView, SessionDetail, SessionView
from holdfast.server.local.client import ControlRefused, GatewayDown

LEAVING = frozenset({"/quit", "/exit"})
_EARLIER = 60  # records that are looked at for what was said before
_NOT_CURRENT = 409
_QUESTIONS = 2  # how many of those are shown, with what came of them


class Chat:
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
        sending: Sending,
        patience: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._reopen = reopen
        self._screen = screen
        self._keyboard = keyboard
        self._sending = sending
        self._patience = patience
        self._now = now
        self._lost_at = 0.0
        self._session_id = ""
        self._conversation = Conversation(screen)
        self._connected = True
        self._caught_up = False  # since the connection was made, all that was missed has come
        self._told: set[str] = set()  # approvals that were answered here
        self._stale = False  # the session may have been left for another

    def run(self) -> None:
        """Until the person leaves; raises what the gateway refuses for good."""
        detail: SessionDetail | None = self._look()
        while detail is not None:
            detail = self._converse(detail)

    def _look(self) -> SessionDetail:
        return self._api.session(self._reopen().id, limit=_EARLIER)

    def _converse(self, detail: SessionDetail) -> SessionDetail | None:
        """Returns the session that took this one's place; None: the person left."""
        self._session_id, self._caught_up = detail.session.id, False
        self._conversation = opened(detail, self._screen)
        after = detail.records[-1].seq if detail.records else 0
        wake = self._keyboard.wake
        with Follower(self._api, self._session_id, after=after, wake=wake) as follower:
            while True:
                for what in follower.take():
                    self._take(what)
                if self._stale and (other := self._replaced()) is not None:
                    return other
                if not self._listen():
                    return None

    def _replaced(self) -> SessionDetail | None:
        """The session that took this one's place, if one did and the gateway is there to say."""
        try:
            detail = self._look()
        except GatewayDown:
            return None  # it stays stale, and is looked at again
        self._stale = False
        return detail if detail.session.id != self._session_id else None

    def _listen(self) -> bool:
        """Wait for whatever comes next; False: the person leaves."""
        done = not self._sending.waits and not self._conversation.running
        ready = done or bool(self._conversation.asked - self._told)
        match self._keyboard.wait(ready=ready and self._connected):
            case Wake.INTERRUPT:
                return self._interrupt()
            case Wake.INPUT:
                return self._read()
        return True

    def _read(self) -> bool:
        try:
            text = self._keyboard.read()
        except EOFError:
            return False
        if text.strip() in LEAVING:
            return False
        if text.strip():
            answers = bool(self._conversation.asked) and spoken(text) is not None
            if answers:
                self._told |= self._conversation.asked
            said = said_to_agent(text)  # what is for the gateway leaves no record
            if said is not None and not answers:
                self._conversation.typed(said)
            self._sending.add(text, answers=answers)
            self._send()
        return True

    def _interrupt(self) -> bool:
        """Ctrl-C: stops what runs. With nobody to tell, it leaves."""
        if not self._connected:
            return False
        if not (self._sending.waits or self._conversation.running):
            self._screen.line("Ctrl-D leaves.", dim=True)
            return True
        try:
            self._api.stop(self._session_id)
        except (GatewayDown, ControlRefused) as error:
            self._screen.line(str(error), fg="red")
        return True

    def _send(self) -> None:
        try:
            self._sending.send(self._session_id)
        except GatewayDown:
            self._screen.line("It is sent as soon as the gateway is back.", dim=True)
        except ControlRefused as refused:
            # Somebody may have gone on to another session meanwhile: then it is said there.
            self._stale = refused.status == _NOT_CURRENT and self._is_elsewhere()
            if not self._stale:
                self._sending.drop_unsent()
                self._screen.line(str(refused), fg="red")

    def _is_elsewhere(self) -> bool:
        try:
            return self._reopen().id != self._session_id
        except GatewayDown:
            return True  # nobody can say: it is kept, and tried again

    def _take(self, what: Followed) -> None:
        match what:
            case Ended(error):
                raise error
            case Lost(why):
                self._tell_lost(why)
            case _:
                self._conversation.take(what)
                if what.kind == "live" and not self._caught_up:
                    self._catch_up()
                if isinstance(what.body, EndedEvent):
                    self._tell_ends()
                self._stale = self._stale or not self._conversation.current

    def _tell_ends(self) -> None:
        for sent, message in self._sending.ended():
            self._conversation.tell_end(message, of_command=sent.is_command)
            self._stale = self._stale or sent.is_command

    def _tell_lost(self, why: str) -> None:
        self._caught_up = False
        if self._connected:
            self._connected, self._lost_at = False, self._now()
            self._screen.line(f"reconnecting … ({why})", fg="yellow")
        elif self._patience is not None and self._now() - self._lost_at > self._patience:
            raise GatewayDown(why)

    def _catch_up(self) -> None:
        """Ends are told once and not again: those that nobody heard are asked for."""
        self._caught_up = True
        if not self._connected:
            self._connected = True
            self._screen.line("connected again", fg="green")
        if self._sending.unsent:
            self._send()
        self._tell_ends()


def opened(detail: SessionDetail, screen: Screen, *, questions: int = _QUESTIONS) -> Conversation:
    """A conversation with the end of what was said in it on the screen."""
    shown = _latest(detail.records, questions)
    left_out = detail.session.messages - len(shown)
    if shown and left_out > 0:
        screen.line(f"… {left_out} earlier: holdfast sessions show {detail.session.id}", dim=True)
    conversation = Conversation(screen)
    for record in shown:
        conversation.record(record)
    conversation.running = detail.live is not None and not detail.live.resting
    return conversation


def _latest(records: list[RecordView], questions: int) -> list[RecordView]:
    asked = [at for at, record in enumerate(records) if isinstance(record.message, UserMessage)]
    return records[asked[-questions] if len(asked) >= questions else 0 :] if questions else []
