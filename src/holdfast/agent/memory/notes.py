"""The notes: the one way to change them, and what may stand in one."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.people.memory import (
    About,
    Edit,
    Edited,
    EditOutcome,
    Notebook,
    OwnerId,
    one_line,
)
from holdfast.core.ports.protocols import Clock
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.subagent import Child

LONGEST = 1000  # characters of one note


class BadNote(HoldfastError):
    """A note that cannot be kept as it is."""


class NoteStore(Protocol):
    """What of the store is used here."""

    def edit_notes(self, edit: Edit) -> Awaitable[Edited]: ...
    async def notebook(self, owner: OwnerId) -> Notebook: ...
    async def notebooks(self, *, limit: int, offset: int = 0) -> list[Notebook]: ...
    async def memory_owners(self) -> dict[OwnerId, bool]: ...
    async def session(self, session_id: SessionId) -> SessionRow | None: ...
    async def child(self, session_id: SessionId) -> Child | None: ...


class Notes:
    """Makes every change to a notebook, and owns who has one or has turned memory off. A change
    is made by `change`, or by another's commit which then says so to `changed`.

    That much is known here, so that whoever has no notes costs a new session no read.
    """

    def __init__(
        self, store: NoteStore, *, clock: Clock, redact: Callable[[str], str], room: int
    ) -> None:
        self.store = store
        self.room = room
        self._clock = clock
        self._redact = redact
        self._off: dict[OwnerId, bool] = {}  # of everyone who ever had a notebook

    async def start(self) -> None:
        self._off = await self.store.memory_owners()

    def off(self, owner: OwnerId) -> bool:
        return self._off.get(owner, False)

    async def notebook(self, owner: OwnerId) -> Notebook:
        if owner not in self._off:
            return Notebook(owner=owner)
        return await self.store.notebook(owner)

    async def change(self, edit: Edit, *, by: str = "") -> Edited:
        """`by`: who wants it, where that is nobody's message and no call of an agent."""
        if by:
            edit = msgspec.structs.replace(edit, by=by)
        edited = await self.store.edit_notes(edit)
        self.changed(edited)
        return edited

    def changed(self, edited: Edited) -> None:
        """A notebook was changed, by whatever commit."""
        self._off[edited.notebook.owner] = edited.notebook.off

    def add(self, owner: OwnerId, text: str, *, about: About = About.PERSON) -> Edit:
        return self._edit("add", owner, text=self._fit(text), about=about)

    def replace(
        self, owner: OwnerId, note_id: int, text: str, *, about: About | None = None
    ) -> Edit:
        return self._edit("replace", owner, note_id=note_id, text=self._fit(text), about=about)

    def remove(self, owner: OwnerId, note_id: int) -> Edit:
        return self._edit("remove", owner, note_id=note_id)

    def clear(self, owner: OwnerId) -> Edit:
        return self._edit("clear", owner)

    def switch(self, owner: OwnerId, *, off: bool) -> Edit:
        """Off: nothing is added, nothing is shown to an agent; the notes stay."""
        return self._edit("off" if off else "on", owner)

    def _edit(
        self,
        action: Literal["add", "replace", "remove", "clear", "off", "on"],
        owner: OwnerId,
        *,
        note_id: int = 0,
        text: str = "",
        about: About | None = None,
    ) -> Edit:
        return Edit(
            action=action,
            owner=owner,
            note_id=note_id,
            about=about,
            text=text,
            room=self.room,
            at=self._clock.now(),
        )

    def _fit(self, text: str) -> str:
        """One line, nothing hidden in it, and the value of no secret."""
        line = self._redact(one_line(text))
        if not line:
            raise BadNote("A note needs a text.")
        if len(line) > LONGEST:
            raise BadNote(f"A note has {LONGEST} characters at the most, and this has {len(line)}.")
        return line


def refusal(edited: Edited, *, room: int) -> str:
    """Why nothing was changed; "": it was, or it is so already."""
    used = edited.notebook.used
    match edited.outcome:
        case EditOutcome.FULL:
            return (
                f"The notes are full: {len(edited.notebook.notes)} of them, with {used} of {room} "
                "characters. Remove some, or put several into one shorter note, and try again."
            )
        case EditOutcome.MISSING:
            return "There is no note of that number."
        case EditOutcome.OFF:
            return "Memory is turned off here (/memory on turns it on); nothing is noted."
    return ""


def listed(notebook: Notebook) -> Iterator[str]:
    """The notes as lines, under what they are about; nothing for an empty notebook."""
    for about, title in ((About.PERSON, "About the person:"), (About.WORLD, "About the world:")):
        lines = [f"{note.id}. {note.text}" for note in notebook.notes if note.about is about]
        if lines:
            yield title
            yield from lines
