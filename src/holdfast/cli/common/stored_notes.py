"""Notes read from the store, where no gateway is running."""

from pathlib import Path

from holdfast.cli.common.offline import query_store
from holdfast.config import load
from holdfast.core.people.memory import Notebook
from holdfast.core.ports.protocols import Store
from holdfast.server.api.views.memory import NotebookView, NoteView

_ALL_NOTEBOOKS = 1_000_000


def read_stored_notebooks(home: Path) -> list[NotebookView]:
    room = load(home).settings.memory.max_chars

    async def read(store: Store) -> list[Notebook]:
        return await store.notebooks(limit=_ALL_NOTEBOOKS)

    found = query_store(home, read, purpose="reading the notes")
    return [_notebook_view(notebook, room) for notebook in found or ()]


def _notebook_view(notebook: Notebook, max_chars: int) -> NotebookView:
    notes = [
        NoteView(id=note.id, topic=note.topic, text=note.text, changed_at=note.changed_at)
        for note in notebook.notes
    ]
    return NotebookView(
        owner=notebook.owner, off=notebook.off, used=notebook.used, max_chars=max_chars, notes=notes
    )
