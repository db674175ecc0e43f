"""Asking: one message sent once, waited for across restarts, and its answer printed."""

import base64
import mimetypes
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from holdfast.cli.chat.talking import new_message_id
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.names import get_session
from holdfast.cli.common.output import print_json
from holdfast.cli.progress import show_progress
from holdfast.cli.word_wanted import PendingApprovalNotifier
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import OPEN_STATES, BusyMode, InboxState
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.message_views import (
    AcceptedView,
    AttachmentUpload,
    MessageView,
    NewMessage,
)
from holdfast.server.local.client import GatewayDown
from holdfast.system import exits

EXIT_TIMED_OUT = 124  # as timeout(1) has it
_LONG_POLL_SECONDS = 20.0  # seconds that one request waits for the end
_MAX_GATEWAY_DOWNTIME = 60.0  # seconds that a gateway which went away is waited for
_RETRY_DELAY = 0.5  # seconds between two attempts to reach it
_PROGRESS_LAG = 2.0  # seconds that an answer waits for its last steps to be shown
_MAX_ATTACHMENT_BYTES = (
    20_000_000  # bytes of attachments: with their encoding, what a request may have
)


@dataclass(frozen=True, kw_only=True)
class AskRequest:
    text: str
    session: str | None = None
    files: tuple[str, ...] = ()
    timeout: float | None = None
    message_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class AskResult:
    """What became of a question; `view` None: it was not answered in time."""

    session_id: str
    message_id: str
    view: MessageView | None


class _Deadline:
    """How long may still be waited: for the answer, and for a gateway that is away."""

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
        """Wait a moment for the gateway to come back; raises what kept it away, in the end."""
        now = time.monotonic()
        self._down_since = self._down_since or now
        if now - self._down_since > _MAX_GATEWAY_DOWNTIME:
            raise down
        time.sleep(self.remaining(_RETRY_DELAY))


def ask(api: ApiClient, request: AskRequest) -> AskResult:
    """Send the question and wait. It is the same question however often it has to be sent."""
    deadline = _Deadline(request.timeout)
    message = NewMessage(
        text=request.text,
        message_id=request.message_id or new_message_id(),
        mode=BusyMode.QUEUE,  # it wants an answer of its own, and interrupts nobody
        attachments=_read_attachments(request.files),
    )
    session_id = _resolve_session(api, request.session)
    with show_progress(api, session_id, question=request.text) as shown:
        accepted = _send_message(api, session_id, message, deadline)
        view = _wait_for_answer(api, accepted, deadline)
        if shown is not None and view is not None:
            # The answer comes by another line than the steps, which may be a little behind.
            shown.wait_until_ended(accepted.id, timeout=_PROGRESS_LAG)
    return AskResult(session_id=session_id, message_id=message.message_id, view=view)


def print_answer(result: AskResult, *, as_json: bool) -> int:
    """Print it, and say how the command is to exit."""
    view = result.view
    if as_json:
        print_json(_result_json(result))
    elif view is not None and is_answered(view):
        click.echo(sanitize(view.text) if sys.stdout.isatty() else view.text)
    else:
        click.echo(f"{click.style('error:', fg='red')} {_failure_text(result)}", err=True)
    if view is None:
        return EXIT_TIMED_OUT
    return exits.OK if is_answered(view) else exits.FAILED


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
        "reason": _failure_text(result) if view is None else view.reason,
        "session": result.session_id,
        "message_id": result.message_id,
        "usage": None if view is None else msgspec.to_builtins(view.usage),
    }


def _failure_text(result: AskResult) -> str:
    view = result.view
    if view is not None:
        return view.text or view.reason or f"the question is {view.state}"
    return (
        "No answer in time. The work goes on: `holdfast sessions follow "
        f"{result.session_id}` shows it, and asking the same again with --session "
        f"{result.session_id} --message-id {result.message_id} waits for it."
    )


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
    wanted = PendingApprovalNotifier(api)
    while (left := deadline.remaining(_LONG_POLL_SECONDS)) > 0:
        try:
            view = api.read_message(accepted.id, wait=left)
            if view.state in OPEN_STATES:
                wanted.notify(view)
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
            f"The files have {size / 1e6:.0f} MB together; {_MAX_ATTACHMENT_BYTES // 1_000_000} MB is the most."
        )
    return [
        AttachmentUpload(
            name=path.name,
            media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            data=base64.b64encode(path.read_bytes()).decode(),
        )
        for path in paths
    ]
