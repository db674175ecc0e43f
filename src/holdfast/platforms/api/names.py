"""Names in the API: which session a request belongs to, and how an answer is called."""

from urllib.parse import quote

from holdfast.core.ids import InboxId
from holdfast.core.messages.attachment import ATTACHED
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.source import Source
from holdfast.platforms.api.reading import Conversation
from holdfast.platforms.api.refusals import Refusal, bad

SESSION = "X-Holdfast-Session"
MESSAGE_ID = "X-Holdfast-Message-Id"
_LONGEST = 200


def header(value: str | None, name: str) -> str | None:
    """A header's value, if it is there and can be a name."""
    if value is None:
        return None
    if not value or len(value) > _LONGEST or not value.isprintable():
        raise bad(f"{name} must be 1 to {_LONGEST} printable characters.", param=name)
    return value


def inbound(said: Conversation, *, session: str | None, message_id: str) -> Inbound:
    """The request as an event. Without a session it is a conversation of its own, and the past
    it carries is that conversation's past."""
    chat_id = f"session/{session}" if session else f"request/{message_id}"
    # Quoted, or the message c of session a/b would be taken for b/c of session a.
    event_id = f"session/{quote(session, safe='')}/{message_id}" if session else chat_id
    return Inbound(
        source=Source(platform="api", chat_id=chat_id, user_id="owner"),
        event_id=event_id,
        message_id=message_id,
        text=said.asked.text,
        images=said.asked.images,
        # A program that asks wants each of its questions answered, by itself and in turn.
        busy_mode=BusyMode.QUEUE,
        mergeable=False,
        commands=session is not None,
        lasting=session is not None,
        history=() if session else said.history,
        instructions=said.instructions,
    )


def same_message(one: Inbound, other: Inbound) -> bool:
    """Whether two requests of one message id ask the same.

    In a session only the message counts: what else the request carries is not taken from it. Files
    have become a line and pictures behind it.
    """
    if not _says(one, other.text) or one.images[: len(other.images)] != other.images:
        return False
    if one.commands:  # in a session
        return True
    return (one.history, one.instructions) == (other.history, other.instructions)


def _says(kept: Inbound, text: str) -> bool:
    files = f"{text}\n\n{ATTACHED}" if text.strip() else ATTACHED
    return kept.text == text or kept.text.startswith(files)


def response_id(inbox_id: InboxId) -> str:
    return f"resp_{inbox_id}"


def inbox_id_of(response: str) -> InboxId:
    number = response.removeprefix("resp_")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise no_response(response)
    return InboxId(int(number))


def no_response(response: str) -> Refusal:
    return Refusal(404, f"there is no response {response!r}.", code="not_found")
