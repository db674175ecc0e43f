"""Notes read from the store, where no gateway is running."""

from pathlib import Path

from holdfast.cli.common.offline import ask_store
from holdfast.config import load
from holdfast.core.people.memory import Notebook
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.memory import NotebookView, NoteView

_ALL = 1_000_000


def stored_notebooks(home: Path) -> list[NotebookView]:
    room = load(home).settings.memory.max_chars

    async def read(store: Store) -> list[Notebook]:
        return await store.notebooks(limit=_ALL)

    found = ask_store(home, read, purpose="reading the notes")
    return [_view(notebook, room) for notebook in found or ()]


def _view(notebook: Notebook, room: int) -> NotebookView:
    notes = [
        NoteView(id=note.id, about=note.about, text=note.text, changed_at=note.changed_at)
        for note in notebook.notes
    ]
    return NotebookView(
        owner=notebook.owner, off=notebook.off, used=notebook.used, room=room, notes=notes
    )
