"""Names in the API: which session a request belongs to, and how an answer is called."""

from urllib.parse import quote

from holdfast.core.ids import InboxId
from holdfast.core.messages.attachment import ATTACHED_PREFIX
from holdfast.core.messages.inbox import BusyMode, Inbound
from holdfast.core.messages.source import Source
from holdfast.platforms.api.reading import ApiConversation
from holdfast.platforms.api.refusals import OpenAiError, bad_request

SESSION_HEADER = "X-Holdfast-Session"
MESSAGE_ID_HEADER = "X-Holdfast-Message-Id"
_MAX_HEADER_LENGTH = 200


def validate_header(value: str | None, name: str) -> str | None:
    """A header's value, if it is there and can be a name."""
    if value is None:
        return None
    if not value or len(value) > _MAX_HEADER_LENGTH or not value.isprintable():
        raise bad_request(
            f"{name} must be 1 to {_MAX_HEADER_LENGTH} printable characters.", param=name
        )
    return value


def to_inbound(conversation: ApiConversation, *, session: str | None, message_id: str) -> Inbound:
    """The request as an event. Without a session it is a conversation of its own, and the past
    it carries is that conversation's past."""
    chat_id = f"session/{session}" if session else f"request/{message_id}"
    # Quoted, or the message c of session a/b would be taken for b/c of session a.
    event_id = f"session/{quote(session, safe='')}/{message_id}" if session else chat_id
    return Inbound(
        source=Source(platform="api", chat_id=chat_id, user_id="owner"),
        event_id=event_id,
        message_id=message_id,
        text=conversation.message.text,
        images=conversation.message.images,
        # A program that asks wants each of its questions answered, by itself and in turn.
        busy_mode=BusyMode.QUEUE,
        mergeable=False,
        commands=session is not None,
        lasting=session is not None,
        history=() if session else conversation.history,
        instructions=conversation.instructions,
    )


def is_same_message(one: Inbound, other: Inbound) -> bool:
    """Whether two requests of one message id ask the same.

    In a session only the message counts: what else the request carries is not taken from it. Files
    have become a line and pictures behind it.
    """
    if not _has_text(one, other.text) or one.images[: len(other.images)] != other.images:
        return False
    if one.commands:  # in a session
        return True
    return (one.history, one.instructions) == (other.history, other.instructions)


def _has_text(stored: Inbound, text: str) -> bool:
    files = f"{text}\n\n{ATTACHED_PREFIX}" if text.strip() else ATTACHED_PREFIX
    return stored.text == text or stored.text.startswith(files)


def response_id(inbox_id: InboxId) -> str:
    return f"resp_{inbox_id}"


def parse_response_id(response: str) -> InboxId:
    number = response.removeprefix("resp_")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise response_not_found(response)
    return InboxId(int(number))


def response_not_found(response: str) -> OpenAiError:
    return OpenAiError(404, f"there is no response {response!r}.", code="not_found")
