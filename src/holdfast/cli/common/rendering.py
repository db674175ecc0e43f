"""Rich output for people: as wide as the terminal, and unlimited and plain in a pipe.

Imports rich: import this module inside functions only, where a person reads the result.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from holdfast.cli.common.output import is_dumb, sanitize

_UNLIMITED = 10_000  # columns where no terminal limits the width of a line


def make_console(out: TextIO) -> Console:
    """Texts are shown as they are: no markup, no emoji codes, no highlighting of values."""
    return Console(
        file=out,
        width=None if out.isatty() else _UNLIMITED,
        color_system=None if is_dumb(out) else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


def render(renderable: RenderableType, out: TextIO | None = None) -> str:
    """The text for a stream, standard output by default."""
    return render_on(make_console(out or sys.stdout), renderable)


def render_on(console: Console, renderable: RenderableType) -> str:
    """Lines do not end with the spaces that pad them to the width of a column."""
    with console.capture() as capture:
        console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def fit_cell(text: str, columns: int, *, pad: bool = False) -> str:
    """The text in at most this many columns, with an ellipsis if it was longer."""
    cell = Text(text)
    cell.truncate(columns, overflow="ellipsis", pad=pad)
    return cell.plain


def make_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, header_style: str = "bold"
) -> Table:
    """A table without lines. On a narrow terminal, the first column stays whole, as it has what
    identifies a row; the widest of the others are truncated."""
    table = Table(box=None, pad_edge=False, header_style=header_style)
    for index, header in enumerate(headers):
        # A column that may not wrap would not shrink, so its texts may not.
        table.add_column(Text(header, no_wrap=True, overflow="ellipsis"), no_wrap=index == 0)
    for row in rows:
        texts = (sanitize(" ".join(cell.splitlines())) for cell in row)
        table.add_row(*(Text(text, no_wrap=True, overflow="ellipsis") for text in texts))
    return table


def make_fields(fields: Iterable[tuple[str, str | Text]], *, min_name_width: int = 0) -> Padding:
    """A column of names and one of values. A name is shown once for all values in a row."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=min_name_width)
    grid.add_column(overflow="fold")
    before = ""
    for name, value in fields:
        text = Text(sanitize(value)) if isinstance(value, str) else value
        grid.add_row("" if name == before else name, text)
        before = name
    return Padding(grid, INDENT)


INDENT = (0, 0, 0, 2)  # of a renderable: two columns on the left


def make_progress(out: TextIO) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(min_width=20)),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=make_console(out),
    )
