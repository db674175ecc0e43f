"""The `memory` tool: an agent adds, replaces and removes notes."""

from typing import Literal

import msgspec

from holdfast.agent.memory.notes import InvalidNote, Notes, edit_refusal, format_notes
from holdfast.core.people.memory import (
    NoteEdit,
    NoteEditOutcome,
    NoteEditResult,
    NoteTopic,
    OwnerId,
    memory_owner,
)
from holdfast.core.ports.store_queries import GetSession
from holdfast.core.turns.external import Effect, EffectKind
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema

NEXT_SESSION_HINT = "Later conversations begin with it; the prompt of this one stays as it is."


class MemoryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["add", "replace", "remove", "list"]
    text: str = ""
    id: int | None = None
    about: Literal["person", "world"] | None = None


class MemoryTool:
    """Adds, replaces and removes notes. Every action is idempotent, so a call whose outcome was
    lost is made again."""

    schema = make_schema(
        "memory",
        "Lasting notes for later conversations: short facts about the person (wishes, habits) or "
        "the world (projects, machines). No secrets, nothing passing.",
        MemoryArguments,
    )
    toolset = "memory"
    replay = ReplayClass.ATTACH
    danger = Danger.NONE

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        asked = decode(MemoryArguments, arguments)
        owner = context.memory_owner or await self._session_owner(context)
        if asked.action == "list":
            lines = [*format_notes(await self._notes.notebook(owner))]
            return ToolOutput(text="\n".join(lines) or "No notes yet.")
        try:
            edited = await self._notes.apply(self._edit(owner, asked))
        except InvalidNote as error:
            raise ToolFailed(str(error)) from None
        return ToolOutput(text=self._result_text(asked, edited))

    def effect(self, arguments: Arguments) -> Effect | None:
        try:
            asked = decode(MemoryArguments, arguments)
        except ToolFailed:
            return None
        if asked.action == "list":
            return None
        note = "" if asked.id is None else f" {asked.id}"
        text = f": {asked.text}" if asked.text else ""
        return Effect(kind=EffectKind.MEMORY, text=f"memory {asked.action}{note}{text}")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None

    async def _session_owner(self, context: ToolContext) -> OwnerId:
        """By the route that opened the session: a conversation of a group that one person goes on
        with elsewhere can go back there."""
        session = await self._notes.store.read(GetSession(session_id=context.session_id))
        if session is None:
            raise ToolFailed("This conversation is not stored, so nothing can be noted in it.")
        return memory_owner(session.route, context.principal)

    def _edit(self, owner: OwnerId, requested: MemoryArguments) -> NoteEdit:
        about = None if requested.about is None else NoteTopic(requested.about)
        if requested.action == "add":
            return self._notes.add(owner, requested.text, topic=about or NoteTopic.PERSON)
        if requested.id is None:
            raise ToolFailed(f"{requested.action} needs the id of a note; list shows them.")
        if requested.action == "remove":
            return self._notes.remove(owner, requested.id)
        return self._notes.replace(owner, requested.id, requested.text, topic=about)

    def _result_text(self, requested: MemoryArguments, result: NoteEditResult) -> str:
        if why := edit_refusal(result, max_chars=self._notes.max_chars):
            # The existing notes follow: which of them to combine can only be decided from the whole
            # list.
            lines = () if result.outcome is NoteEditOutcome.OFF else format_notes(result.notebook)
            raise ToolFailed("\n".join([why, *lines]))
        used = f"{result.notebook.used} of {self._notes.max_chars} characters used."
        if requested.action == "remove":
            return f"Removed. {used}"
        number = result.note.id if result.note else "?"
        already = "already " if result.outcome is NoteEditOutcome.UNCHANGED else ""
        return f"Note {number} is {already}kept. {used} {NEXT_SESSION_HINT}"
