"""Memory over HTTP: notebooks listed, notes added, changed and removed, memory turned off."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.agent.memory.notes import BadNote, Notes, refusal
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.memory import About, Edited, EditOutcome, Notebook, OwnerId
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import Refused, bad, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.memory import (
    NewNote,
    NotebookChange,
    NotebookList,
    NotebookView,
    NoteOwner,
    NoteView,
)


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`owner`: that one's notebook alone, also where there is nothing in it."""

    owner: NoteOwner | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0


class ForgetQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `id`, all notes of the owner."""

    owner: NoteOwner
    id: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None


async def list_notebooks(room: Room, call: Call[MemoryQuery, None]) -> web.Response:
    asked, notes = call.query, _notes(room)
    if asked.owner is not None:
        found = [await notes.notebook(OwnerId(asked.owner))]
    else:
        found = await notes.store.notebooks(limit=asked.limit + 1, offset=asked.offset)
    views = [_view(notebook, notes) for notebook in found[: asked.limit]]
    return room.say(NotebookList(notebooks=views, more=len(found) > asked.limit))


async def keep_note(room: Room, call: Call[NoQuery, NewNote]) -> web.Response:
    notes, given = _notes(room), call.body
    owner = OwnerId(given.owner)
    try:
        if given.id is None:
            edit = notes.add(owner, given.text, about=given.about or About.PERSON)
        else:
            edit = notes.replace(owner, given.id, given.text, about=given.about)
    except BadNote as error:
        raise bad(str(error), param="text") from None
    return _said(room, notes, await notes.change(edit, by=OPERATOR))


async def change_notebook(room: Room, call: Call[NoQuery, NotebookChange]) -> web.Response:
    notes = _notes(room)
    edit = notes.switch(OwnerId(call.body.owner), off=call.body.off)
    return _said(room, notes, await notes.change(edit, by=OPERATOR))


async def forget(room: Room, call: Call[ForgetQuery, None]) -> web.Response:
    notes, asked = _notes(room), call.query
    owner = OwnerId(asked.owner)
    edit = notes.clear(owner) if asked.id is None else notes.remove(owner, asked.id)
    return _said(room, notes, await notes.change(edit, by=OPERATOR))


def _notes(room: Room) -> Notes:
    return room.gateway.house.memory.notes


def _said(room: Room, notes: Notes, edited: Edited) -> web.Response:
    """The notebook as it is now, or why it did not change."""
    why = refusal(edited, room=notes.room)
    if edited.outcome is EditOutcome.MISSING:
        raise not_found(why)
    if why:
        raise Refused(409, why, code=edited.outcome.value)
    return room.say(_view(edited.notebook, notes))


def _view(notebook: Notebook, notes: Notes) -> NotebookView:
    return NotebookView(
        owner=notebook.owner,
        off=notebook.off,
        used=notebook.used,
        room=notes.room,
        notes=[
            NoteView(id=note.id, about=note.about, text=note.text, changed_at=note.changed_at)
            for note in notebook.notes
        ],
    )
