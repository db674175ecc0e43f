"""/memory: see and change what is remembered of whoever asks, or turn remembering off."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.agent.memory.notes import BadNote, Notes, listed, refusal
from holdfast.core.people.commands import BY_NAME
from holdfast.core.people.memory import Edit, Edited, OwnerId, owner_of
from holdfast.core.sessions.session import Settled
from holdfast.core.sessions.worded import WordedEdits
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, answer_with
from holdfast.gateway.services import House

LATER = "Conversations that are under way keep what they began with."
_CLEAR = "yes"


class MemoryCommand:
    """What it changes commits with its answer."""

    name = "memory"

    def __init__(self, house: House) -> None:
        self._house = house
        self._looks: dict[str, Callable[[OwnerId, str], Awaitable[str | WordedEdits]]] = {
            "": self._show,
            "show": self._show,
            "clear": self._clear,
        }
        self._changes: dict[str, Callable[[OwnerId, str], str | WordedEdits]] = {
            "add": self._add,
            "edit": self._edit,
            "forget": self._forget,
            "off": self._off,
            "on": self._on,
        }

    @property
    def _notes(self) -> Notes:
        return self._house.memory.notes

    async def begin(self, asked: Asked) -> None:
        verb, _, rest = asked.argument.partition(" ")
        try:
            done = await self._done(await self._owner(asked), verb, rest.strip())
        except BadNote as error:
            done = str(error)
        if isinstance(done, str):
            await answer(self._house, asked.row, done)
        else:
            await answer_with(self._house, asked.row, notes=done, kept=self._kept)

    async def _done(self, owner: OwnerId, verb: str, rest: str) -> str | WordedEdits:
        """The answer, or the change that gives it."""
        if (look := self._looks.get(verb.lower())) is not None:
            return await look(owner, rest)
        if (change := self._changes.get(verb.lower())) is not None:
            return change(owner, rest)
        return BY_NAME[self.name].misused(f"/memory cannot {verb!r}.")

    def _kept(self, settled: Settled) -> None:
        for edited in settled.edited:
            self._notes.changed(edited)

    async def _owner(self, asked: Asked) -> OwnerId:
        """Of the conversation, by the route it was opened by; before there is one, of this one."""
        session = await self._house.store.session(asked.session_id) if asked.session_id else None
        route = session.route if session else asked.row.route
        return owner_of(route, asked.row.principal)

    async def _show(self, owner: OwnerId, rest: str) -> str:
        notebook = await self._notes.notebook(owner)
        whose = "you" if owner.startswith("person:") else "this place"
        lines = [*listed(notebook)]
        if not lines:
            lines = [f"Nothing is noted about {whose}."]
        else:
            lines.append(f"{notebook.used} of {self._notes.room} characters used.")
        others = [name for name in self._house.memory.provider_names if name != "notes"]
        if others:
            lines.append(f"Besides these notes, {', '.join(others)} remembers.")
        if notebook.off:
            lines.append("Memory is off: agents see none of this, and nothing is added.")
        return "\n".join(lines)

    def _add(self, owner: OwnerId, rest: str) -> WordedEdits:
        def told(edited: Edited) -> str:
            return self._told(edited, f"Noted as {edited.note.id if edited.note else '?'}.")

        return _one(self._notes.add(owner, rest), told)

    def _edit(self, owner: OwnerId, rest: str) -> str | WordedEdits:
        number, _, text = rest.partition(" ")
        if not _is_number(number) or not text.strip():
            return "Say which note, and what it is to say: /memory edit 3 Speaks Danish"
        edit = self._notes.replace(owner, int(number), text)
        return _one(edit, lambda edited: self._told(edited, f"Note {number} is changed."))

    def _forget(self, owner: OwnerId, rest: str) -> str | WordedEdits:
        numbers = rest.replace(",", " ").split()
        if not numbers or not all(map(_is_number, numbers)):
            return "Say which notes, by number: /memory forget 3"
        distinct = dict.fromkeys(map(int, numbers))
        edits = tuple(self._notes.remove(owner, number) for number in distinct)
        return WordedEdits(edits=edits, told=_forgotten)

    async def _clear(self, owner: OwnerId, rest: str) -> str | WordedEdits:
        count = len((await self._notes.notebook(owner)).notes)
        if not count:
            return "Nothing is noted."
        if rest.lower() != _CLEAR:
            return f"This forgets {_all(count)} for good. If you mean it: /memory clear {_CLEAR}"
        return _one(self._notes.clear(owner), lambda _: f"Forgotten: {_all(count)}. {LATER}")

    def _off(self, owner: OwnerId, rest: str) -> WordedEdits:
        done = f"Memory is off: new conversations begin without it, and nothing is added. {LATER}"
        return _one(self._notes.switch(owner, off=True), lambda _: done)

    def _on(self, owner: OwnerId, rest: str) -> WordedEdits:
        return _one(self._notes.switch(owner, off=False), lambda _: "Memory is on.")

    def _told(self, edited: Edited, done: str) -> str:
        return refusal(edited, room=self._notes.room) or f"{done} {LATER}"


def _one(edit: Edit, told: Callable[[Edited], str]) -> WordedEdits:
    return WordedEdits(edits=(edit,), told=lambda edited: told(edited[0]))


def _forgotten(edited: Sequence[Edited]) -> str:
    gone = [str(each.note.id) for each in edited if each.note is not None]
    if not gone:
        return "There is no note of that number. /memory lists them."
    return f"Forgotten: {', '.join(gone)}. {LATER}"


def _all(count: int) -> str:
    return "the only note" if count == 1 else f"all {count} notes"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
