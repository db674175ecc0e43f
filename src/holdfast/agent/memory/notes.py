"""Notes: the only way to change them, and what may be in one."""

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

MAX_NOTE_LENGTH = 1000  # characters of one note


class InvalidNote(HoldfastError):
    """A note that cannot be kept as it is."""


class NoteStore(StoreWriter, StoreReader, Protocol):
    """The part of the store that is used here."""


class Notes:
    """Makes every change to a notebook, and owns who has one or has turned memory off. A change
    is made by `change`, or by another's commit which then says so to `changed`.

    That much is known here, so that whoever has no notes costs a new session no read.
    """

    def __init__(
        self, store: NoteStore, *, clock: Clock, redact: Callable[[str], str], max_chars: int
    ) -> None:
        self.store = store
        self.max_chars = max_chars
        self._clock = clock
        self._redact = redact
        self._off: dict[OwnerId, bool] = {}  # of everyone who ever had a notebook

    def set_max_chars(self, max_chars: int) -> None:
        """The size of every notebook from now on; one that is larger keeps what it has."""
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
        """`by`: who wants it, where that is nobody's message and no call of an agent."""
        if by:
            edit = msgspec.structs.replace(edit, by=by)
        edited = await self.store.write(edit)
        self.on_changed(edited)
        return edited

    def on_changed(self, result: NoteEditResult) -> None:
        """A notebook was changed, by whatever commit."""
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
        """Off: nothing is added, nothing is shown to an agent; the notes stay."""
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
        """One line, nothing hidden in it, and the value of no secret."""
        line = self._redact(to_single_line(text))
        if not line:
            raise InvalidNote("A note needs a text.")
        if len(line) > MAX_NOTE_LENGTH:
            raise InvalidNote(
                "A note has {max_note_length} characters at the most, and this has {n}.",
                max_note_length=MAX_NOTE_LENGTH,
                n=len(line),
            )
        return line


def edit_refusal(result: NoteEditResult, *, max_chars: int) -> str:
    """Why nothing was changed; "": it was, or it is so already."""
    used = result.notebook.used
    match result.outcome:
        case NoteEditOutcome.FULL:
            return (
                f"The notes are full: {len(result.notebook.notes)} of them, with {used} of "
                f"{max_chars} "
                "characters. Remove some, or put several into one shorter note, and try again."
            )
        case NoteEditOutcome.MISSING:
            return "There is no note of that number."
        case NoteEditOutcome.OFF:
            return "Memory is turned off here (/memory on turns it on); nothing is noted."
    return ""


def format_notes(notebook: Notebook) -> Iterator[str]:
    """The notes as lines, under what they are about; nothing for an empty notebook."""
    for about, title in (
        (NoteTopic.PERSON, "About the person:"),
        (NoteTopic.WORLD, "About the world:"),
    ):
        lines = [f"{note.id}. {note.text}" for note in notebook.notes if note.topic is about]
        if lines:
            yield title
            yield from lines
