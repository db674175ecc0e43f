"""The `memory` tool: an agent keeps, mends and drops its notes."""

from typing import Literal

import msgspec

from holdfast.agent.memory.notes import BadNote, Notes, listed, refusal
from holdfast.core.people.memory import About, Edit, Edited, EditOutcome, OwnerId, owner_of
from holdfast.core.turns.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema

LATER = "Later conversations begin with it; the prompt of this one stays as it is."


class MemoryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["add", "replace", "remove", "list"]
    text: str = ""
    id: int | None = None
    about: Literal["person", "world"] | None = None


class MemoryTool:
    """Adding is idempotent and so is the rest: a call whose outcome was lost is made again."""

    schema = make_schema(
        "memory",
        "Lasting notes for later conversations: short facts about the person (wishes, habits) or "
        "the world (projects, machines). No secrets, nothing passing.",
        MemoryArguments,
    )
    toolset = "memory"
    replay = Replay.ATTACH
    danger = Danger.NONE

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(MemoryArguments, arguments)
        owner = await self._owner(context)
        if asked.action == "list":
            lines = [*listed(await self._notes.notebook(owner))]
            return ToolOutput(text="\n".join(lines) or "No notes yet.")
        try:
            edited = await self._notes.change(self._edit(owner, asked))
        except BadNote as error:
            raise ToolFailed(str(error)) from None
        return ToolOutput(text=self._told(asked, edited))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None

    async def _owner(self, context: ToolContext) -> OwnerId:
        """Of the conversation; a child's words are told in the one that it works for."""
        store = self._notes.store
        child = await store.child(context.session_id)
        session = await store.session(context.session_id if child is None else child.bench)
        if session is None:
            raise ToolFailed("This conversation is not kept, so nothing can be noted in it.")
        return owner_of(session.route, context.principal)

    def _edit(self, owner: OwnerId, asked: MemoryArguments) -> Edit:
        about = None if asked.about is None else About(asked.about)
        if asked.action == "add":
            return self._notes.add(owner, asked.text, about=about or About.PERSON)
        if asked.id is None:
            raise ToolFailed(f"{asked.action} needs the id of a note; list shows them.")
        if asked.action == "remove":
            return self._notes.remove(owner, asked.id)
        return self._notes.replace(owner, asked.id, asked.text, about=about)

    def _told(self, asked: MemoryArguments, edited: Edited) -> str:
        if why := refusal(edited, room=self._notes.room):
            # What there is, with it: what to put together can only be seen in the whole.
            lines = () if edited.outcome is EditOutcome.OFF else listed(edited.notebook)
            raise ToolFailed("\n".join([why, *lines]))
        used = f"{edited.notebook.used} of {self._notes.room} characters used."
        if asked.action == "remove":
            return f"Removed. {used}"
        number = edited.note.id if edited.note else "?"
        already = "already " if edited.outcome is EditOutcome.SAME else ""
        return f"Note {number} is {already}kept. {used} {LATER}"
