"""Wire types of notebooks and notes."""

from typing import Annotated

import msgspec

from holdfast.core.people.memory import NoteTopic

NoteOwner = Annotated[str, msgspec.Meta(pattern="^(person|place):.", max_length=400)]


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    topic: NoteTopic
    text: str
    changed_at: float


class NotebookView(msgspec.Struct, frozen=True, kw_only=True):
    """The notes about a person or a shared chat. `off`: agents do not see them. `max_chars`: limit
    of all notes together; `used`: their length."""

    owner: str
    off: bool
    used: int
    max_chars: int
    notes: list[NoteView]


class NotebookList(msgspec.Struct, frozen=True, kw_only=True):
    notebooks: list[NotebookView]
    more: bool


class NewNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With `id`, the new text of that note."""

    owner: NoteOwner
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
    topic: NoteTopic | None = None  # None: as it was; of a new one, the person
    id: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None


class NotebookChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    owner: NoteOwner
    off: bool
