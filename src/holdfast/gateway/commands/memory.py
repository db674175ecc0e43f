"""/memory: see and change what is remembered about the person, or turn it off."""

from collections.abc import Callable, Sequence

from holdfast.agent.memory.notes import InvalidNote, Notes, edit_refusal, format_notes
from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.people.memory import NoteEdit, NoteEditResult, OwnerId, memory_owner
from holdfast.core.ports.store_queries import GetSession
from holdfast.core.sessions.session import CommandOutcome, NoteEditsWithReply
from holdfast.gateway.commands.context import MemoryContext
from holdfast.gateway.commands.reply import send_effect_reply, send_reply

LATER_TEXT = "Conversations that are under way keep what they began with."
_CONFIRM_CLEAR = "yes"


async def cmd_memory(context: MemoryContext, request: CommandRequest) -> None:
    """What it changes commits with its answer."""
    verb, _, rest = request.argument.partition(" ")
    notes = context.memory.notes
    try:
        done = await _run_verb(context, await _owner(context, request), verb, rest.strip())
    except InvalidNote as error:
        done = str(error)
    if isinstance(done, str):
        await send_reply(context.replies, request.row, done)
        return

    def on_committed(outcome: CommandOutcome) -> None:
        for edited in outcome.note_edits:
            notes.on_changed(edited)

    await send_effect_reply(context.replies, request.row, notes=done, on_committed=on_committed)


async def _owner(context: MemoryContext, request: CommandRequest) -> OwnerId:
    """Of the conversation, by the route it was opened by; before there is one, of this one."""
    session = (
        await context.store.read(GetSession(session_id=request.session_id))
        if request.session_id
        else None
    )
    route = session.route if session else request.row.route
    return memory_owner(route, request.row.principal)


async def _run_verb(
    context: MemoryContext, owner: OwnerId, verb: str, rest: str
) -> str | NoteEditsWithReply:
    """The answer, or the change that gives it."""
    notes = context.memory.notes
    match verb.lower():
        case "" | "show":
            return await _show(context, owner)
        case "clear":
            return await _clear(notes, owner, rest)
        case "add":
            return _add(notes, owner, rest)
        case "edit":
            return _edit(notes, owner, rest)
        case "forget":
            return _forget(notes, owner, rest)
        case "off":
            text = "Memory is off: new conversations begin without it, and nothing is added."
            return _single_edit(notes.switch(owner, off=True), lambda _: f"{text} {LATER_TEXT}")
        case "on":
            return _single_edit(notes.switch(owner, off=False), lambda _: "Memory is on.")
        case _:
            return COMMANDS_BY_NAME["memory"].usage_error(f"/memory cannot {verb!r}.")


async def _show(context: MemoryContext, owner: OwnerId) -> str:
    notes = context.memory.notes
    notebook = await notes.notebook(owner)
    whose = "you" if owner.startswith("person:") else "this place"
    lines = [*format_notes(notebook)]
    if not lines:
        lines = [f"Nothing is noted about {whose}."]
    else:
        lines.append(f"{notebook.used} of {notes.max_chars} characters used.")
    others = [name for name in context.memory.provider_names if name != "notes"]
    if others:
        lines.append(f"Besides these notes, {', '.join(others)} remembers.")
    if notebook.off:
        lines.append("Memory is off: agents see none of this, and nothing is added.")
    return "\n".join(lines)


def _add(notes: Notes, owner: OwnerId, text: str) -> NoteEditsWithReply:
    return _single_edit(
        notes.add(owner, text),
        lambda edited: _edited_text(
            notes, edited, f"Noted as {edited.note.id if edited.note else '?'}."
        ),
    )


def _edit(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    number, _, text = rest.partition(" ")
    if not _is_number(number) or not text.strip():
        return "Say which note, and what it is to say: /memory edit 3 Speaks Danish"
    return _single_edit(
        notes.replace(owner, int(number), text),
        lambda edited: _edited_text(notes, edited, f"Note {number} is changed."),
    )


def _forget(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    numbers = rest.replace(",", " ").split()
    if not numbers or not all(map(_is_number, numbers)):
        return "Say which notes, by number: /memory forget 3"
    distinct = dict.fromkeys(map(int, numbers))
    edits = tuple(notes.remove(owner, number) for number in distinct)
    return NoteEditsWithReply(edits=edits, reply=_forgotten_text)


async def _clear(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    count = len((await notes.notebook(owner)).notes)
    if not count:
        return "Nothing is noted."
    if rest.lower() != _CONFIRM_CLEAR:
        return (
            f"This forgets {_count_text(count)} for good. If you mean it: "
            f"/memory clear {_CONFIRM_CLEAR}"
        )
    return _single_edit(
        notes.clear(owner), lambda _: f"Forgotten: {_count_text(count)}. {LATER_TEXT}"
    )


def _edited_text(notes: Notes, edited: NoteEditResult, done: str) -> str:
    return edit_refusal(edited, max_chars=notes.max_chars) or f"{done} {LATER_TEXT}"


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
