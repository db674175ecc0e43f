"""/memory: see and change what is remembered about the person, or turn it off."""

from collections.abc import Awaitable, Callable, Sequence

from holdfast.agent.memory.notes import InvalidNote, Notes, edit_refusal, format_notes
from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.people.memory import NoteEdit, NoteEditResult, OwnerId, memory_owner
from holdfast.core.ports.store_queries import GetSession
from holdfast.core.sessions.session import CommandOutcome, NoteEditsWithReply
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_effect_reply, send_reply
from holdfast.gateway.services import Services

LATER_TEXT = "Conversations that are under way keep what they began with."
_CONFIRM_CLEAR = "yes"


class MemoryCommand:
    """What it changes commits with its answer."""

    name = "memory"

    def __init__(self, services: Services) -> None:
        self._services = services
        self._queries: dict[str, Callable[[OwnerId, str], Awaitable[str | NoteEditsWithReply]]] = {
            "": self._show,
            "show": self._show,
            "clear": self._clear,
        }
        self._changes: dict[str, Callable[[OwnerId, str], str | NoteEditsWithReply]] = {
            "add": self._add,
            "edit": self._edit,
            "forget": self._forget,
            "off": self._off,
            "on": self._on,
        }

    @property
    def _notes(self) -> Notes:
        return self._services.memory.notes

    async def begin(self, request: CommandRequest) -> None:
        verb, _, rest = request.argument.partition(" ")
        try:
            done = await self._run(await self._owner(request), verb, rest.strip())
        except InvalidNote as error:
            done = str(error)
        if isinstance(done, str):
            await send_reply(self._services, request.row, done)
        else:
            await send_effect_reply(
                self._services, request.row, notes=done, on_committed=self._on_committed
            )

    async def _run(self, owner: OwnerId, verb: str, rest: str) -> str | NoteEditsWithReply:
        """The answer, or the change that gives it."""
        if (look := self._queries.get(verb.lower())) is not None:
            return await look(owner, rest)
        if (change := self._changes.get(verb.lower())) is not None:
            return change(owner, rest)
        return COMMANDS_BY_NAME[self.name].usage_error(f"/memory cannot {verb!r}.")

    def _on_committed(self, outcome: CommandOutcome) -> None:
        for edited in outcome.note_edits:
            self._notes.on_changed(edited)

    async def _owner(self, request: CommandRequest) -> OwnerId:
        """Of the conversation, by the route it was opened by; before there is one, of this one."""
        session = (
            await self._services.store.read(GetSession(session_id=request.session_id))
            if request.session_id
            else None
        )
        route = session.route if session else request.row.route
        return memory_owner(route, request.row.principal)

    async def _show(self, owner: OwnerId, rest: str) -> str:
        notebook = await self._notes.notebook(owner)
        whose = "you" if owner.startswith("person:") else "this place"
        lines = [*format_notes(notebook)]
        if not lines:
            lines = [f"Nothing is noted about {whose}."]
        else:
            lines.append(f"{notebook.used} of {self._notes.max_chars} characters used.")
        others = [name for name in self._services.memory.provider_names if name != "notes"]
        if others:
            lines.append(f"Besides these notes, {', '.join(others)} remembers.")
        if notebook.off:
            lines.append("Memory is off: agents see none of this, and nothing is added.")
        return "\n".join(lines)

    def _add(self, owner: OwnerId, rest: str) -> NoteEditsWithReply:
        def reply_text(edited: NoteEditResult) -> str:
            return self._reply_text(edited, f"Noted as {edited.note.id if edited.note else '?'}.")

        return _single_edit(self._notes.add(owner, rest), reply_text)

    def _edit(self, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
        number, _, text = rest.partition(" ")
        if not _is_number(number) or not text.strip():
            return "Say which note, and what it is to say: /memory edit 3 Speaks Danish"
        edit = self._notes.replace(owner, int(number), text)
        return _single_edit(
            edit, lambda edited: self._reply_text(edited, f"Note {number} is changed.")
        )

    def _forget(self, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
        numbers = rest.replace(",", " ").split()
        if not numbers or not all(map(_is_number, numbers)):
            return "Say which notes, by number: /memory forget 3"
        distinct = dict.fromkeys(map(int, numbers))
        edits = tuple(self._notes.remove(owner, number) for number in distinct)
        return NoteEditsWithReply(edits=edits, reply=_forgotten_text)

    async def _clear(self, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
        count = len((await self._notes.notebook(owner)).notes)
        if not count:
            return "Nothing is noted."
        if rest.lower() != _CONFIRM_CLEAR:
            return (
                f"This forgets {_count_text(count)} for good. If you mean it: "
                f"/memory clear {_CONFIRM_CLEAR}"
            )
        return _single_edit(
            self._notes.clear(owner), lambda _: f"Forgotten: {_count_text(count)}. {LATER_TEXT}"
        )

    def _off(self, owner: OwnerId, rest: str) -> NoteEditsWithReply:
        done = (
            f"Memory is off: new conversations begin without it, and nothing is added. {LATER_TEXT}"
        )
        return _single_edit(self._notes.switch(owner, off=True), lambda _: done)

    def _on(self, owner: OwnerId, rest: str) -> NoteEditsWithReply:
        return _single_edit(self._notes.switch(owner, off=False), lambda _: "Memory is on.")

    def _reply_text(self, edited: NoteEditResult, done: str) -> str:
        return edit_refusal(edited, max_chars=self._notes.max_chars) or f"{done} {LATER_TEXT}"


def _single_edit(edit: NoteEdit, reply_text: Callable[[NoteEditResult], str]) -> NoteEditsWithReply:
    return NoteEditsWithReply(edits=(edit,), reply=lambda edited: reply_text(edited[0]))


def _forgotten_text(edited: Sequence[NoteEditResult]) -> str:
    deleted = [str(each.note.id) for each in edited if each.note is not None]
    if not deleted:
        return "There is no note of that number. /memory lists them."
    return f"Forgotten: {', '.join(deleted)}. {LATER_TEXT}"


def _count_text(count: int) -> str:
    return "the only note" if count == 1 else f"all {count} notes"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
