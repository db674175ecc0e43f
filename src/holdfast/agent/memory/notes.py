"""Notes: every change to them, and what a note may contain."""

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.people.memory import (
    Notebook,
    NoteEdit,
    NoteEditOutcome,
    NoteEditResult,
    NoteTopic,
    OwnerId,
    to_single_line,
)
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreReader, StoreWriter
from holdfast.core.ports.store_queries import GetNotebook, ListMemoryOwners
from holdfast.core.text.translation import N_, _

MAX_NOTE_LENGTH = 1000  # characters of one note


class InvalidNote(HoldfastError):
    """A note cannot be stored as it is."""


class NoteStore(StoreWriter, StoreReader, Protocol):
    """The part of the store that is used here."""


class Notes:
    """Makes every change to a notebook, and owns which owners have one and which have turned memory
    off. A change is made by `change`, or by another commit that is then reported to `on_changed`.

    This is kept in memory, so that a new session of an owner without notes costs no read.
    """

    def __init__(
        self, store: NoteStore, *, clock: Clock, redact: Callable[[str], str], max_chars: int
    ) -> None:
        self.store = store
        self.max_chars = max_chars
        self._clock = clock
        self._redact = redact
        self._off: dict[OwnerId, bool] = {}  # of every owner who ever had a notebook

    def set_max_chars(self, max_chars: int) -> None:
        """Change the size limit of every notebook. A notebook that is larger keeps its notes."""
        self.max_chars = max_chars

    async def start(self) -> None:
        self._off = await self.store.read(ListMemoryOwners())

    def is_off(self, owner: OwnerId) -> bool:
        return self._off.get(owner, False)

    async def notebook(self, owner: OwnerId) -> Notebook:
        if owner not in self._off:
            return Notebook(owner=owner)
        return await self.store.read(GetNotebook(owner=owner))

    async def apply(self, edit: NoteEdit, *, by: str = "") -> NoteEditResult:
        """Store a change. `by` is who made it, if it is neither from a message nor from a call of
        an agent."""
        if by:
            edit = msgspec.structs.replace(edit, by=by)
        edited = await self.store.write(edit)
        self.on_changed(edited)
        return edited

    def on_changed(self, result: NoteEditResult) -> None:
        """A notebook was changed, by any commit."""
        self._off[result.notebook.owner] = result.notebook.off

    def add(self, owner: OwnerId, text: str, *, topic: NoteTopic = NoteTopic.PERSON) -> NoteEdit:
        return self._edit("add", owner, text=self._clean_text(text), topic=topic)

    def replace(
        self, owner: OwnerId, note_id: int, text: str, *, topic: NoteTopic | None = None
    ) -> NoteEdit:
        return self._edit(
            "replace", owner, note_id=note_id, text=self._clean_text(text), topic=topic
        )

    def remove(self, owner: OwnerId, note_id: int) -> NoteEdit:
        return self._edit("remove", owner, note_id=note_id)

    def clear(self, owner: OwnerId) -> NoteEdit:
        return self._edit("clear", owner)

    def switch(self, owner: OwnerId, *, off: bool) -> NoteEdit:
        """Turn memory off or on. While it is off, nothing is added or shown to an agent; the notes
        stay."""
        return self._edit("off" if off else "on", owner)

    def _edit(
        self,
        action: Literal["add", "replace", "remove", "clear", "off", "on"],
        owner: OwnerId,
        *,
        note_id: int = 0,
        text: str = "",
        topic: NoteTopic | None = None,
    ) -> NoteEdit:
        return NoteEdit(
            action=action,
            owner=owner,
            note_id=note_id,
            topic=topic,
            text=text,
            max_chars=self.max_chars,
            at=self._clock.now(),
        )

    def _clean_text(self, text: str) -> str:
        """The text as one line, without hidden characters and without the value of a secret."""
        line = self._redact(to_single_line(text))
        if not line:
            raise InvalidNote("A note needs a text.")
        if len(line) > MAX_NOTE_LENGTH:
            raise InvalidNote(
                "A note can have at most {most} characters; this one has {n}.",
                most=MAX_NOTE_LENGTH,
                n=len(line),
            )
        return line


def edit_refusal(result: NoteEditResult, *, max_chars: int) -> str:
    """Why an edit changed nothing; "" if it did, or if nothing had to be changed."""
    used = result.notebook.used
    match result.outcome:
        case NoteEditOutcome.FULL:
            return _(
                "The notes are full: {n} notes use {used} of {limit} characters. Remove "
                "some, or combine several into one shorter note, and try again."
            ).format(n=len(result.notebook.notes), used=used, limit=max_chars)
        case NoteEditOutcome.MISSING:
            return _("There is no note with that number.")
        case NoteEditOutcome.OFF:
            return _("Memory is turned off here, so nothing is noted. Turn it on with /memory on.")
    return ""


def format_notes(notebook: Notebook) -> Iterator[str]:
    """The notes as lines, grouped by topic, in the language of the context; nothing for an empty
    notebook."""
    for about, title in (
        (NoteTopic.PERSON, N_("About the person:")),
        (NoteTopic.WORLD, N_("About the world:")),
    ):
        lines = [f"{note.id}. {note.text}" for note in notebook.notes if note.topic is about]
        if lines:
            yield _(title)
            yield from lines
