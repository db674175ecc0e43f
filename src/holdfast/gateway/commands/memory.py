"""/memory: see and change what is remembered of whoever asks, or turn remembering off."""

from collections.abc import Awaitable, Callable

from holdfast.agent.memory.notes import BadNote, Notes, listed, refusal
from holdfast.core.commands import BY_NAME
from holdfast.core.memory import Edited, OwnerId, owner_of
from holdfast.gateway.commands.answer import answer
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.house import House

LATER = "Conversations that are under way keep what they began with."
_CLEAR = "yes"


class MemoryCommand:
    """Each change is idempotent: carried out again after a crash, it is the same change."""

    name = "memory"

    def __init__(self, house: House) -> None:
        self._house = house
        self._verbs: dict[str, Callable[[OwnerId, str], Awaitable[str]]] = {
            "": self._show,
            "show": self._show,
            "add": self._add,
            "edit": self._edit,
            "forget": self._forget,
            "clear": self._clear,
            "off": self._off,
            "on": self._on,
        }

    @property
    def _notes(self) -> Notes:
        return self._house.memory.notes

    async def begin(self, asked: Asked) -> None:
        verb, _, rest = asked.argument.partition(" ")
        carry_out = self._verbs.get(verb.lower())
        if carry_out is None:
            text = BY_NAME[self.name].misused(f"/memory cannot {verb!r}.")
        else:
            try:
                text = await carry_out(await self._owner(asked), rest.strip())
            except BadNote as error:
                text = str(error)
        await answer(self._house, asked.row, text)

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

    async def _add(self, owner: OwnerId, rest: str) -> str:
        edited = await self._notes.add(owner, rest)
        return self._told(edited, f"Noted as {edited.note.id if edited.note else '?'}.")

    async def _edit(self, owner: OwnerId, rest: str) -> str:
        number, _, text = rest.partition(" ")
        if not _is_number(number) or not text.strip():
            return "Say which note, and what it is to say: /memory edit 3 Speaks Danish"
        edited = await self._notes.replace(owner, int(number), text)
        return self._told(edited, f"Note {number} is changed.")

    async def _forget(self, owner: OwnerId, rest: str) -> str:
        numbers = rest.replace(",", " ").split()
        if not numbers or not all(map(_is_number, numbers)):
            return "Say which notes, by number: /memory forget 3"
        gone = [
            number
            for number in dict.fromkeys(map(int, numbers))
            if (await self._notes.remove(owner, number)).note is not None
        ]
        if not gone:
            return "There is no note of that number. /memory lists them."
        return f"Forgotten: {', '.join(map(str, gone))}. {LATER}"

    async def _clear(self, owner: OwnerId, rest: str) -> str:
        count = len((await self._notes.notebook(owner)).notes)
        if not count:
            return "Nothing is noted."
        if rest.lower() != _CLEAR:
            return f"This forgets {_all(count)} for good. If you mean it: /memory clear {_CLEAR}"
        await self._notes.clear(owner)
        return f"Forgotten: {_all(count)}. {LATER}"

    async def _off(self, owner: OwnerId, rest: str) -> str:
        await self._notes.switch(owner, off=True)
        return f"Memory is off: new conversations begin without it, and nothing is added. {LATER}"

    async def _on(self, owner: OwnerId, rest: str) -> str:
        await self._notes.switch(owner, off=False)
        return "Memory is on."

    def _told(self, edited: Edited, done: str) -> str:
        return refusal(edited, room=self._notes.room) or f"{done} {LATER}"


def _all(count: int) -> str:
    return "the only note" if count == 1 else f"all {count} notes"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
