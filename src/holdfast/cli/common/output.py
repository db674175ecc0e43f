"""Prints results: JSON for programs, tables and progress bars for people, text safe for a terminal.

Imports click and translation only: `root` and `status` depend on it.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.text import Text


def replace_unencodable() -> None:
    """From now on, characters that the terminal cannot encode are shown as `?`, and undecodable
    input is read as `?`. Without this, either would raise half-way through a command."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Under the C locale, undecodable bytes are passed through and fail in the first request.
        if isinstance(stream, io.TextIOWrapper) and (
            stream.errors == "strict" or stream is sys.stdin
        ):
            stream.reconfigure(errors="replace")


def find_undecodable(words: Sequence[str]) -> str | None:
    """The first word of the command line that is not valid in the encoding of the shell, with its
    bytes escaped; None: all of them are valid."""
    invalid = (os.fsencode(word) for word in words if _has_surrogates(word))
    return next((word.decode("utf-8", "backslashreplace") for word in invalid), None)


def can_encode_all(stream: object) -> bool:
    """Whether a stream can encode every character."""
    return not isinstance(stream, io.TextIOWrapper) or "utf" in stream.encoding.lower()


def _has_surrogates(word: str) -> bool:
    # Undecodable bytes are lone surrogates (PEP 383).
    return any("\udc80" <= letter <= "\udcff" for letter in word)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def print_json(document: object) -> None:
    import json  # noqa: PLC0415 - not needed for a table

    # Programs get `\u2713` where the stream cannot encode a character, never `?`.
    escaped = not can_encode_all(sys.stdout)
    click.echo(json.dumps(document, indent=2, ensure_ascii=escaped))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as needed; on a terminal, long texts are truncated to fit."""
    from holdfast.cli.common.rendering import make_table, render  # noqa: PLC0415 - not for --json

    click.echo(render(make_table(headers, rows)))


def wrap_text(text: str) -> str:
    """Wrapped between words. A URL stays whole, so that it can be clicked: rich would break it."""
    from shutil import get_terminal_size  # noqa: PLC0415 - few commands need it
    from textwrap import TextWrapper  # noqa: PLC0415 - as above

    width = get_terminal_size().columns
    wrapper = TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, text.splitlines()))


def print_fields(fields: "Sequence[tuple[str, str | Text]]") -> None:
    """Names and values, one below the other; a long value is wrapped beside its name."""
    from holdfast.cli.common.rendering import make_fields, render  # noqa: PLC0415 - not for --json

    click.echo(render(make_fields(fields)))


# It must not move the cursor, set a title or answer for the user.
_CONTROL_CHARACTERS = {code: "\N{REPLACEMENT CHARACTER}" for code in [*range(32), *range(127, 160)]}
del _CONTROL_CHARACTERS[ord("\n")], _CONTROL_CHARACTERS[ord("\t")]
_CONTROL_CHARACTERS[ord("\r")] = ""


def sanitize(text: str) -> str:
    """Untrusted text without what a terminal would obey."""
    return text.translate(_CONTROL_CHARACTERS)


def one_line(text: str, *, width: int) -> str:
    """Sanitized text on one line, truncated to `width` characters."""
    line = sanitize(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def is_dumb(out: TextIO) -> bool:
    """Whether the stream shows plain lines only."""
    return not out.isatty() or os.environ.get("TERM", "dumb") == "dumb"


@contextmanager
def progress_bar(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the progress made. Shown only on a terminal (stderr)."""
    with _progress(label, length) as progress:
        yield (lambda done: progress.advance(progress.task_ids[0], done)) if progress else _ignore


@contextmanager
def ratio_progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """The same for progress that is reported as part of a total."""
    with _progress(label, None) as progress:

        def reached(done: int, of: int) -> None:
            if progress:
                progress.update(progress.task_ids[0], completed=done, total=max(1, of))

        yield reached


@contextmanager
def _progress(label: str, length: int | None) -> Iterator["Progress | None"]:
    """A bar with one task; None where it would not be seen."""
    if is_dumb(sys.stderr) or length == 0:
        yield None
        return
    from holdfast.cli.common.rendering import make_progress  # noqa: PLC0415 - on a terminal only

    with make_progress(sys.stderr) as progress:
        progress.add_task(label, total=length)
        yield progress


def _ignore(done: int) -> None:
    """There is no bar."""


def confirm(question: str) -> None:
    """Returns only if the user confirms. Without a terminal, the error names --yes."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # ends the line of the question
        raise HoldfastError(
            "Not confirmed, nothing changed. Use --yes to skip the prompt."
        ) from None


@contextmanager
def open_output(output: str | None) -> Iterator[BinaryIO]:
    """Where an export goes: standard output, or a new file of mode 0600, removed again if the
    export fails."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise HoldfastError(
            "{file} already exists. Remove it or choose another name.", file=output
        ) from None
    except OSError as error:
        raise HoldfastError(
            "{file} cannot be written: {reason}. Choose another place.",
            file=output,
            reason=error.strerror,
        ) from None
    try:
        with open(fd, "wb") as file:
            yield file
    except BaseException:
        os.unlink(output)
        raise
