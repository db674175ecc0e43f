"""`holdfast ask`: sends one question, waits across gateway restarts, and prints the answer.

The same message id is used for every attempt, so the question is asked once.
"""

import base64
import mimetypes
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from holdfast.cli.chat.app import new_message_id
from holdfast.cli.chat.conversation import ConversationView
from holdfast.cli.chat.screen import closing_screen, open_screen
from holdfast.cli.common.connection import api_client_for, get_session
from holdfast.cli.common.language import state_text
from holdfast.cli.common.options import chosen_home, complete_session, home_option, require_name
from holdfast.cli.common.output import json_option, print_json, sanitize
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN_STATES, BusyMode, InboxState
from holdfast.core.text.locale_format import format_number
from holdfast.core.text.translation import N_, _
from holdfast.server.api.client import ApiClient, ReceivedEvent, SessionFollower, StreamLost
from holdfast.server.api.views.sessions import (
    AcceptedView,
    ApprovalView,
    AttachmentUpload,
    EndedEvent,
    MessageView,
    NewMessage,
)
from holdfast.server.local.control_client import GatewayDown
from holdfast.system import exit_codes


@click.command("ask")
@home_option
@json_option
@click.argument("text", nargs=-1)
@click.option(
    "--session",
    metavar="NAME",
    callback=require_name,
    shell_complete=complete_session,
    help="Continue this conversation.  [default: a new one]",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Attach a file; it is stored in the agent's workspace, under uploads/. Can be repeated.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait at most this long.  [default: no limit]",
)
@click.option(
    "--message-id",
    metavar="ID",
    help="An id for the question: questions with the same id are asked once.",
)
def command(
    as_json: bool,
    text: tuple[str, ...],
    session: str | None,
    files: tuple[str, ...],
    timeout: float | None,
    message_id: str | None,
) -> None:
    """Ask one question, wait, and print only the answer.

    Standard input is appended to the question. Progress is shown on standard error if that is a
    terminal. If the gateway restarts meanwhile, the command waits for it, up to a minute.

    \b
    Exit codes: 0 answered; 1 failed, refused or stopped; 2 wrong usage; 3 no gateway is running;
    124 no answer in time (the agent keeps working).

    \b
    Examples:
      holdfast ask "How much disk is free?"
      git diff | holdfast ask "Write a commit message for this."
      holdfast ask --session ops --json --timeout 60 "Is the backup done?"
      holdfast ask --file plan.pdf "What does it say about costs?"
    """
    question = AskRequest(
        text=_read_question(text),
        session=session,
        files=files,
        timeout=timeout,
        message_id=message_id,
    )
    answer = ask(api_client_for(chosen_home()), question)
    sys.exit(print_answer(answer, as_json=as_json))


def _read_question(arguments: tuple[str, ...]) -> str:
    """The arguments, then standard input."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    text = "\n\n".join(part for part in (" ".join(arguments), piped) if part.strip())
    if not text:
        raise click.UsageError(
            _("The question is empty. Try: {command}").format(
                command='holdfast ask "What can you do?"'
            )
        )
    return text


class ProgressTracker:
    """Owns which messages have ended on the screen."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._condition = threading.Condition()

    def mark_ended(self, message: int) -> None:
        with self._condition:
            self._ended.add(message)
            self._condition.notify_all()

    def wait_until_ended(self, message: int, *, timeout: float) -> bool:
        """True once all steps of this message are on the screen; False if that takes longer."""
        with self._condition:
            return self._condition.wait_for(lambda: message in self._ended, timeout)


@contextmanager
def show_progress(
    api: ApiClient, session_id: str, *, question: str
) -> Iterator[ProgressTracker | None]:
    """Shows the steps of a session, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    screen = open_screen(sys.stderr, steps_only=True)
    records = api.read_session(session_id, limit=1).records
    conversation = ConversationView(screen)
    conversation.add_typed(question)
    tracker = ProgressTracker()

    # Runs in the thread of the follower; the waiting thread shows nothing.
    def show() -> None:
        for item in follower.take():
            if isinstance(item, ReceivedEvent):
                conversation.handle_event(item)
                if isinstance(item.body, EndedEvent):
                    tracker.mark_ended(item.body.id)
            elif isinstance(item, StreamLost):
                screen.print_transient(_("reconnecting …"))

    after = records[-1].seq if records else 0
    # Assigned before its thread starts, which may call `show` at once.
    follower = SessionFollower(api, session_id, after=after, wake=show)
    with closing_screen(screen), follower:
        yield tracker


class PendingApprovalNotifier:
    """Owns which approvals were reported; each is reported once. On standard error: otherwise a
    script would wait without a visible reason until the approval expires."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._notified: set[str] = set()

    def notify(self, message: MessageView) -> None:
        if message.session_id is None:
            return
        query = {"pending": "true", "session": message.session_id}
        for approval in self._api.get("/approvals", list[ApprovalView], query):
            if approval.id not in self._notified:
                self._notified.add(approval.id)
                click.echo(_approval_notice(approval), err=True)


def _approval_notice(approval: ApprovalView) -> str:
    return _(
        "Waiting for approval: {command}\n"
        "  {reason}\n"
        "  Allow it with `holdfast approvals approve {id}`, or refuse it with `deny`."
    ).format(command=sanitize(approval.command), reason=sanitize(approval.reason), id=approval.id)


EXIT_TIMED_OUT = 124  # as timeout(1) has it
_LONG_POLL_SECONDS = 20.0  # of one request
_MAX_GATEWAY_DOWNTIME = 60.0  # seconds to wait for the gateway
_RETRY_DELAY = 0.5  # seconds between two attempts
_PROGRESS_LAG = 2.0  # seconds that an answer waits for its last steps
_MAX_ATTACHMENT_BYTES = 20_000_000  # base64-encoded, this is the limit of a request


@dataclass(frozen=True, kw_only=True)
class AskRequest:
    text: str
    session: str | None = None
    files: tuple[str, ...] = ()
    timeout: float | None = None
    message_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class AskResult:
    """The result of a question; `view` None: it was not answered in time."""

    session_id: str
    message_id: str
    view: MessageView | None


class _Deadline:
    """The time left for the answer, and for a gateway that is down."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._down_since: float | None = None

    def remaining(self, limit: float) -> float:
        if self._end is None:
            return limit
        return max(0.0, min(limit, self._end - time.monotonic()))

    def gateway_reached(self) -> None:
        self._down_since = None

    def wait_for_gateway(self, down: GatewayDown) -> None:
        """Waits a moment for the gateway to come back; raises `down` after the limit."""
        now = time.monotonic()
        self._down_since = self._down_since or now
        if now - self._down_since > _MAX_GATEWAY_DOWNTIME:
            raise down
        time.sleep(self.remaining(_RETRY_DELAY))


def ask(api: ApiClient, request: AskRequest) -> AskResult:
    """Sends the question and waits. Every attempt uses the same message id."""
    deadline = _Deadline(request.timeout)
    message = NewMessage(
        text=request.text,
        message_id=request.message_id or new_message_id(),
        mode=BusyMode.QUEUE,  # it needs an answer of its own, and interrupts no turn
        attachments=_read_attachments(request.files),
    )
    session_id = _resolve_session(api, request.session)
    with show_progress(api, session_id, question=request.text) as tracker:
        accepted = _send_message(api, session_id, message, deadline)
        view = _wait_for_answer(api, accepted, deadline)
        if tracker is not None and view is not None:
            # The answer comes by another connection than the steps, which may be a little behind.
            tracker.wait_until_ended(accepted.id, timeout=_PROGRESS_LAG)
    return AskResult(session_id=session_id, message_id=message.message_id, view=view)


def print_answer(result: AskResult, *, as_json: bool) -> int:
    """Prints the result and returns the exit code."""
    view = result.view
    if as_json:
        print_json(_result_json(result))
    elif view is not None and is_answered(view):
        click.echo(sanitize(view.text) if sys.stdout.isatty() else view.text)
    else:
        click.echo(f"{click.style(_('error:'), fg='red')} {_failure_text(result)}", err=True)
    if view is None:
        return EXIT_TIMED_OUT
    return exit_codes.OK if is_answered(view) else exit_codes.FAILED


def is_answered(view: MessageView) -> bool:
    """A message that was merged into the next has that one's answer."""
    return view.state is InboxState.ANSWERED or (
        view.state is InboxState.MERGED and view.text != ""
    )


def _result_json(result: AskResult) -> dict[str, object]:
    view = result.view
    return {
        "state": "timeout" if view is None else view.state,
        "answer": view.text if view is not None and is_answered(view) else None,
        "reason": _TIMED_OUT.format(**_ids(result)) if view is None else view.reason,
        "session": result.session_id,
        "message_id": result.message_id,
        "usage": None if view is None else msgspec.to_builtins(view.usage),
    }


def _failure_text(result: AskResult) -> str:
    view = result.view
    if view is not None:
        return (
            view.text
            or view.reason
            or _("The question has the state {state}.").format(state=state_text(view.state))
        )
    return _(_TIMED_OUT).format(**_ids(result))


_TIMED_OUT = N_(
    "No answer in time; the agent keeps working. Watch it with `holdfast sessions follow "
    "{session}`, or wait for the answer: ask again with --session {session} --message-id "
    "{message_id}."
)


def _ids(result: AskResult) -> dict[str, str]:
    return {"session": result.session_id, "message_id": result.message_id}


def _resolve_session(api: ApiClient, name: str | None) -> str:
    if name is None:
        return api.open_session(None).id
    known = get_session(api, name)
    return (known or api.open_session(name)).id


def _send_message(
    api: ApiClient, session_id: str, message: NewMessage, deadline: _Deadline
) -> AcceptedView:
    while True:
        try:
            accepted = api.send_message(session_id, message)
            deadline.gateway_reached()
            return accepted
        except GatewayDown as down:
            deadline.wait_for_gateway(down)


def _wait_for_answer(
    api: ApiClient, accepted: AcceptedView, deadline: _Deadline
) -> MessageView | None:
    approvals = PendingApprovalNotifier(api)
    while (left := deadline.remaining(_LONG_POLL_SECONDS)) > 0:
        try:
            view = api.read_message(accepted.id, wait=left)
            if view.state in OPEN_STATES:
                approvals.notify(view)
        except GatewayDown as down:
            deadline.wait_for_gateway(down)
            continue
        deadline.gateway_reached()
        if view.state not in OPEN_STATES:
            return view
    return None


def _read_attachments(files: tuple[str, ...]) -> list[AttachmentUpload]:
    paths = [Path(file) for file in files]
    size = sum(path.stat().st_size for path in paths)
    if size > _MAX_ATTACHMENT_BYTES:
        raise HoldfastError(
            "The files are too large: they have {size} MB together, the limit is {limit} MB. "
            "Attach fewer or smaller files.",
            size=format_number(size / 1e6),
            limit=_MAX_ATTACHMENT_BYTES // 1_000_000,
        )
    return [
        AttachmentUpload(
            name=path.name,
            media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            data=base64.b64encode(path.read_bytes()).decode(),
        )
        for path in paths
    ]
