"""The chat: what is typed goes to the gateway, and what happens there comes to the screen."""

from collections.abc import Callable

from holdfast.cli.conversation import Conversation
from holdfast.cli.keyboard import Keyboard, Wake
from holdfast.cli.screen import Screen
from holdfast.cli.sending import Sending
from holdfast.control.api_client import ApiClient
from holdfast.control.client import ControlRefused, GatewayDown
from holdfast.control.following import Ended, Followed, Follower, Lost
from holdfast.control.v1.views import EndedEvent, RecordView, SessionDetail, SessionView
from holdfast.core.message import UserMessage

LEAVING = frozenset({"/quit", "/exit"})
_EARLIER = 60  # records that are looked at for what was said before
_QUESTIONS = 2  # how many of those are shown, with what came of them


class Chat:
    """Owns one person's view of a session, from the first look to leaving.

    `reopen` gives the session as it is now, for a command may have begun another.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        reopen: Callable[[], SessionView],
        screen: Screen,
        keyboard: Keyboard,
        sending: Sending,
    ) -> None:
        self._api = api
        self._reopen = reopen
        self._screen = screen
        self._keyboard = keyboard
        self._sending = sending
        self._session_id = ""
        self._conversation = Conversation(screen)
        self._connected = True
        self._caught_up = False  # since the connection was made, all that was missed has come
        self._stale = False  # the session may have been left for another

    def run(self) -> None:
        """Until the person leaves; raises what the gateway refuses for good."""
        session: SessionView | None = self._reopen()
        while session is not None:
            session = self._converse(session)

    def _converse(self, session: SessionView) -> SessionView | None:
        """Returns the session that took this one's place; None: the person left."""
        self._session_id, self._caught_up = session.id, False
        detail = self._api.session(session.id, limit=_EARLIER)
        self._conversation = opened(detail, self._screen)
        after = detail.records[-1].seq if detail.records else 0
        with Follower(self._api, session.id, after=after, wake=self._keyboard.wake) as follower:
            while True:
                for what in follower.take():
                    self._take(what)
                if self._stale and (other := self._reopen()).id != session.id:
                    return other
                self._stale = False
                if not self._listen():
                    return None

    def _listen(self) -> bool:
        """Wait for whatever comes next; False: the person leaves."""
        ready = not self._sending.waits and not self._conversation.running
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
            self._conversation.typed(text)
            self._sending.add(text)
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
            self._stale = self._reopen().id != self._session_id
            if not self._stale:
                self._sending.drop_unsent()
                self._screen.line(str(refused), fg="red")

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
            self._connected = False
            self._screen.line(f"reconnecting … ({why})", fg="yellow")

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
    conversation.running = detail.live is not None
    return conversation


def _latest(records: list[RecordView], questions: int) -> list[RecordView]:
    asked = [at for at, record in enumerate(records) if isinstance(record.message, UserMessage)]
    return records[asked[-questions] if len(asked) >= questions else 0 :] if questions else []
