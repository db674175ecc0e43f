"""The views of events: what a stream says of one session, and of all."""

import msgspec

from holdfast.core.messages.inbox import InboxState


class TextEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`text` and `reasoning` events: a piece that is appended to the live step."""

    text: str


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`tool` event: output that a running call has written meanwhile."""

    call_id: str
    text: str


class VoidEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`void` event: the live text is void, because the model is asked again."""

    why: str


class EndedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`ended` event: a message has reached its end. Its records came before."""

    id: int
    state: InboxState
    reason: str


class GatewayEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway` event of `/events`: it stops, or is to, or an account stands otherwise than before.
    `turns`: how many run; `pending`: it restarts once none does; `refused`: a sentence for each
    account that waits for a person."""

    state: str
    phase: str
    turns: int
    pending_restart: bool
    blocked_accounts: tuple[str, ...] = ()


class DeletedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """`deleted` event of `/events`: that session is gone."""

    id: str
