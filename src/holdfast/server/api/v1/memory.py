"""Memory over HTTP: notebooks listed, notes added, changed and removed, memory switched off."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.agent.memory.notes import InvalidNote, Notes, edit_refusal
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.memory import (
    Notebook,
    NoteEditOutcome,
    NoteEditResult,
    NoteTopic,
    OwnerId,
)
from holdfast.core.ports.store_queries import ListNotebooks
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import EndpointError, bad_request, not_found
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


class DeleteNotesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without `id`, all notes of the owner."""

    owner: NoteOwner
    id: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] | None = None


async def list_notebooks(context: ApiContext, call: ApiCall[MemoryQuery, None]) -> web.Response:
    asked, notes = call.query, _notes(context)
    if asked.owner is not None:
        found = [await notes.notebook(OwnerId(asked.owner))]
    else:
        found = await notes.store.read(ListNotebooks(limit=asked.limit + 1, offset=asked.offset))
    views = [_view(notebook, notes) for notebook in found[: asked.limit]]
    return context.respond(NotebookList(notebooks=views, more=len(found) > asked.limit))


async def save_note(context: ApiContext, call: ApiCall[NoQuery, NewNote]) -> web.Response:
    notes, given = _notes(context), call.body
    owner = OwnerId(given.owner)
    try:
        if given.id is None:
            edit = notes.add(owner, given.text, topic=given.topic or NoteTopic.PERSON)
        else:
            edit = notes.replace(owner, given.id, given.text, topic=given.topic)
    except InvalidNote as error:
        raise bad_request(error, param="text") from None
    return _notebook_response(context, notes, await notes.apply(edit, by=OPERATOR))


async def change_notebook(
    context: ApiContext, call: ApiCall[NoQuery, NotebookChange]
) -> web.Response:
    notes = _notes(context)
    edit = notes.switch(OwnerId(call.body.owner), off=call.body.off)
    return _notebook_response(context, notes, await notes.apply(edit, by=OPERATOR))


async def delete_notes(context: ApiContext, call: ApiCall[DeleteNotesQuery, None]) -> web.Response:
    notes, asked = _notes(context), call.query
    owner = OwnerId(asked.owner)
    edit = notes.clear(owner) if asked.id is None else notes.remove(owner, asked.id)
    return _notebook_response(context, notes, await notes.apply(edit, by=OPERATOR))


def _notes(context: ApiContext) -> Notes:
    return context.gateway.memory.notes


def _notebook_response(context: ApiContext, notes: Notes, result: NoteEditResult) -> web.Response:
    """The notebook as it is now, or why it did not change."""
    why = edit_refusal(result, max_chars=notes.max_chars)
    if result.outcome is NoteEditOutcome.MISSING:
        raise not_found(why)
    if why:
        raise EndpointError(409, why, code=result.outcome.value)
    return context.respond(_view(result.notebook, notes))


def _view(notebook: Notebook, notes: Notes) -> NotebookView:
    return NotebookView(
        owner=notebook.owner,
        off=notebook.off,
        used=notebook.used,
        max_chars=notes.max_chars,
        notes=[
            NoteView(id=note.id, topic=note.topic, text=note.text, changed_at=note.changed_at)
            for note in notebook.notes
        ],
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/memory",
        summary="What is noted about people, and in places that they share.",
        handler=list_notebooks,
        read_only=True,
        query=MemoryQuery,
        response_type=NotebookList,
    ),
    Endpoint(
        method="POST",
        path="/memory",
        summary="Add a note, or with its id change one.",
        handler=save_note,
        read_only=False,
        request_type=NewNote,
        response_type=NotebookView,
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="PATCH",
        path="/memory",
        summary="Turn the memory of an owner off or on; the notes stay.",
        handler=change_notebook,
        read_only=False,
        request_type=NotebookChange,
        response_type=NotebookView,
    ),
    Endpoint(
        method="DELETE",
        path="/memory",
        summary="Forget a note, or without its id all of an owner's.",
        handler=delete_notes,
        read_only=False,
        query=DeleteNotesQuery,
        response_type=NotebookView,
        error_statuses=(404,),
    ),
)
