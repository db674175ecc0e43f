"""A reply as it grows: shown in its chat before it is whole, always as the same message."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import Crash, CrashPoint
from holdfast.core.errors import NotConnected, Refused, SendError, Throttled
from holdfast.core.messages.events import Event, StepEnded, StreamVoided
from holdfast.core.messages.outbox import Begun, NewDelivery, Part
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Platform
from holdfast.gateway.outbound.doing import Doing
from holdfast.gateway.outbound.posting import Post, Posting, editor_of, outcome, restored
from holdfast.gateway.outbound.way import Way
from holdfast.gateway.outbound.wording import Wording

log = logging.getLogger(__name__)

_PATIENCE = 0.5  # seconds at most: a reply that is whole by then is sent in one piece
_BEFORE_DOING = 2.0  # seconds that a tool runs before it alone is worth a message


class ReplyStream:
    """Owns when something is shown and what is known of the message that shows it: words, and tools
    that run, which are never a part of the reply itself.

    Only the first message of a long reply is shown as it grows: whether there will be a second
    is known at the end, and one that was sent cannot be taken back. Nothing that is shown here
    is waited for, and all of it may be left out; the reply itself is the delivery's to bring.
    """

    def __init__(
        self,
        new: NewDelivery,
        *,
        interval: float,
        show: Callable[["ReplyStream"], bool],
        journal: Journal,
        clock: Clock,
        crash: Crash,
        doing: Doing | None = None,
        begun: Begun | None = None,
    ) -> None:
        self.id = new.id
        self.address = new.address
        self.part = restored(begun.parts[0]) if begun and begun.parts else Part(number=1)
        self.shown = begun.shown if begun else ""
        self.muted = False  # nothing more is shown before the end
        self.begun = begun is not None  # its row is there, or on its way
        self._new = new
        self._interval = interval
        self._show = show
        self._journal = journal
        self._clock = clock
        self._crash = crash
        self._words_shown = begun.words if begun else ""
        self._wording = Wording(doing=doing, before=self._words_shown)
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        self._row_there = self.begun  # and nothing is shown before that
        self._attempted = begun is not None and bool(begun.parts)
        self._unhurried = False  # the timer is set for what is done alone
        self._full = False  # its first message holds no more of this step
        self._closed = False

    @property
    def as_begun(self) -> Begun | None:
        """What a turn that goes on elsewhere needs of it; None: nothing was begun."""
        if not self.begun:
            return None
        return Begun(
            id=self.id,
            parts=(self.part,) if self._attempted else (),
            shown=self.shown,
            words=self._words_shown,
        )

    @property
    def rest(self) -> float:
        """Seconds for which the platform wants no other edit of it."""
        return max(0.0, self._next_at - self._clock.monotonic())

    def take(self, event: Event) -> None:
        """What watchers see of the turn; every secret has been taken out of it."""
        if self._wording.take(event):
            self._stir()
        elif isinstance(event, StepEnded | StreamVoided):
            self._full = False

    def _stir(self) -> None:
        """There is something to show, when it is time; words wait less long than what is done."""
        if self._timer is not None and self._unhurried and self._wording.speaks:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._grows:
            self._wait()

    @property
    def _grows(self) -> bool:
        return not (self._full or self.muted or self._closed)

    def reopen(self, *, muted: bool) -> None:
        """A turn begins, or goes on after it was set aside."""
        self._closed = False
        self.muted = self.muted or muted
        self._wording.forget()
        self._full = False

    def close(self) -> None:
        """The turn has ended, or goes on elsewhere: nothing more grows here."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        """One timer, whatever comes meanwhile: when it rings, the newest words are shown."""
        self._unhurried = not (self.begun or self._wording.speaks)
        first = _BEFORE_DOING if self._unhurried else min(self._interval, _PATIENCE)
        until = self.rest if self.begun else first
        self._timer = asyncio.get_running_loop().call_later(until, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self._grows or not self._news():
            return
        if self.rest:  # something was shown since it was set
            self._wait()
        elif not self.begun:
            self._begin()
        elif self._row_there and not self._show(self):  # the chat has more pressing things
            self._next_at = self._clock.monotonic() + self._interval
            self._wait()

    def _news(self) -> str:
        """What would be shown, if that is not what is shown already."""
        text = self._wording.text
        return text if text != self.shown else ""

    def _begin(self) -> None:
        """The row, before the first piece. Queued now, so that the end of the turn finds it."""
        self.begun = True
        writing = self._journal.begin_stream(self._new, at=self._clock.now())
        asyncio.ensure_future(writing).add_done_callback(self._there)

    def _there(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            self.muted = True
            about = {"action": "stream", "session": self._new.session_id}
            log.warning("A reply is not shown as it grows: %s", error, extra=about)
            return
        self._row_there = True
        self._crash(CrashPoint.STREAM_ROW_COMMITTED)
        if self._timer is None:
            self._due()

    async def put(self, posting: Posting, platform: Platform, way: Way) -> None:
        """Show the newest words, in one try. Whatever goes wrong, the end makes it good."""
        first, words, more = self._wording.in_messages(platform)
        if not first or first == self.shown or not self._grows or not self._may_put(platform):
            return
        post = Post(delivery_id=self.id, address=self.address, text=first, final=False)
        sending = self.part.platform_message_id is None
        self._attempted = True
        # A turn that ends while they are on their way keeps them: people may read them already.
        before, self._words_shown = self._words_shown, words
        try:
            self.part = await posting.put(post, self.part, platform)
            self.shown = "" if sending and self.part.doubtful else first
            self._words_shown = words if self.shown else ""
            self._full = more
        except SendError as error:
            self._words_shown = before
            self._not_taken(error, sending=sending, way=way)
        self._next_at = self._clock.monotonic() + self._interval
        if self._timer is None and self._grows and self._news():
            self._wait()

    def _not_taken(self, error: SendError, *, sending: bool, way: Way) -> None:
        if sending:
            self.part = outcome(self.part, error, final=False)
        if isinstance(error, Throttled | NotConnected):
            way.blocked(error)
            return
        self.muted = sending or isinstance(error, Refused)
        if not isinstance(error, Refused):
            # As far as anybody knows: the last edit is made in any case.
            self.shown = self._words_shown = ""

    def _may_put(self, platform: Platform) -> bool:
        """What may have arrived is sent again by the end alone, with all its words; unless the
        platform takes it once, and then says where it is."""
        self.muted = self.muted or editor_of(platform) is None
        unheard = self.part.doubtful and self.part.platform_message_id is None
        if unheard and not platform.capabilities.settles_doubt:
            self.muted = True
        return not self.muted
