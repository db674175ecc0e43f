"""Asking: one message sent once, waited for across restarts, and its answer printed."""

import base64
import mimetypes
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from holdfast.cli.chat.talking import message_id
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.names import existing_session
from holdfast.cli.common.output import print_json
from holdfast.cli.progress import progress
from holdfast.cli.word_wanted import WordWanted
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN, BusyMode, InboxState
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.message_views import (
    AcceptedView,
    Attachment,
    MessageView,
    NewMessage,
)
from holdfast.server.local.client import GatewayDown
from holdfast.system import exits

TIMED_OUT = 124  # as timeout(1) has it
_LOOK = 20.0  # seconds that one request waits for the end
_AWAY = 60.0  # seconds that a gateway which went away is waited for
_AGAIN = 0.5  # seconds between two attempts to reach it
_BEHIND = 2.0  # seconds that an answer waits for its last steps to be shown
_LARGEST = 20_000_000  # bytes of attachments: with their encoding, what a request may have


@dataclass(frozen=True, kw_only=True)
class Question:
    text: str
    session: str | None = None
    files: tuple[str, ...] = ()
    timeout: float | None = None
    message_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a question; `view` None: it was not answered in time."""

    session_id: str
    message_id: str
    view: MessageView | None


class _Deadline:
    """How long may still be waited: for the answer, and for a gateway that is away."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._away: float | None = None

    def left(self, most: float) -> float:
        if self._end is None:
            return most
        return max(0.0, min(most, self._end - time.monotonic()))

    def seen(self) -> None:
        self._away = None

    def away(self, down: GatewayDown) -> None:
        """Wait a moment for the gateway to come back; raises what kept it away, in the end."""
        now = time.monotonic()
        self._away = self._away or now
        if now - self._away > _AWAY:
            raise down
        time.sleep(self.left(_AGAIN))


def ask(api: ApiClient, question: Question) -> Answer:
    """Send the question and wait. It is the same question however often it has to be sent."""
    deadline = _Deadline(question.timeout)
    message = NewMessage(
        text=question.text,
        message_id=question.message_id or message_id(),
        mode=BusyMode.QUEUE,  # it wants an answer of its own, and interrupts nobody
        attachments=_attachments(question.files),
    )
    session_id = _session(api, question.session)
    with progress(api, session_id, asked=question.text) as shown:
        accepted = _say(api, session_id, message, deadline)
        view = _wait(api, accepted, deadline)
        if shown is not None and view is not None:
            # The answer comes by another line than the steps, which may be a little behind.
            shown.until(accepted.id, within=_BEHIND)
    return Answer(session_id=session_id, message_id=message.message_id, view=view)


def print_answer(answer: Answer, *, as_json: bool) -> int:
    """Print it, and say how the command is to exit."""
    view = answer.view
    if as_json:
        print_json(_document(answer))
    elif view is not None and is_answered(view):
        click.echo(safe(view.text) if sys.stdout.isatty() else view.text)
    else:
        click.echo(f"{click.style('error:', fg='red')} {_failure(answer)}", err=True)
    if view is None:
        return TIMED_OUT
    return exits.OK if is_answered(view) else exits.FAILED


def is_answered(view: MessageView) -> bool:
    """A message that was merged into the next has that one's answer."""
    return view.state is InboxState.ANSWERED or (
        view.state is InboxState.MERGED and view.text != ""
    )


def _document(answer: Answer) -> dict[str, object]:
    view = answer.view
    return {
        "state": "timeout" if view is None else view.state,
        "answer": view.text if view is not None and is_answered(view) else None,
        "reason": _failure(answer) if view is None else view.reason,
        "session": answer.session_id,
        "message_id": answer.message_id,
        "usage": None if view is None else msgspec.to_builtins(view.usage),
    }


def _failure(answer: Answer) -> str:
    view = answer.view
    if view is not None:
        return view.text or view.reason or f"the question is {view.state}"
    return (
        "No answer in time. The work goes on: `holdfast sessions follow "
        f"{answer.session_id}` shows it, and asking the same again with --session "
        f"{answer.session_id} --message-id {answer.message_id} waits for it."
    )


def _session(api: ApiClient, name: str | None) -> str:
    if name is None:
        return api.open_session(None).id
    known = existing_session(api, name)
    return (known or api.open_session(name)).id


def _say(api: ApiClient, session_id: str, message: NewMessage, deadline: _Deadline) -> AcceptedView:
    while True:
        try:
            accepted = api.say(session_id, message)
            deadline.seen()
            return accepted
        except GatewayDown as down:
            deadline.away(down)


def _wait(api: ApiClient, accepted: AcceptedView, deadline: _Deadline) -> MessageView | None:
    wanted = WordWanted(api)
    while (left := deadline.left(_LOOK)) > 0:
        try:
            view = api.message(accepted.id, wait=left)
            if view.state in OPEN:
                wanted.tell(view)
        except GatewayDown as down:
            deadline.away(down)
            continue
        deadline.seen()
        if view.state not in OPEN:
            return view
    return None


def _attachments(files: tuple[str, ...]) -> list[Attachment]:
    paths = [Path(file) for file in files]
    size = sum(path.stat().st_size for path in paths)
    if size > _LARGEST:
        raise HoldfastError(
            f"The files have {size / 1e6:.0f} MB together; {_LARGEST // 1_000_000} MB is the most."
        )
    return [
        Attachment(
            name=path.name,
            media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            data=base64.b64encode(path.read_bytes()).decode(),
        )
        for path in paths
    ]
