"""Shows a change of holdfast.toml as a diff and sets variables in .env (mode 0600)."""

import re
from pathlib import Path

import click

from holdfast.config.document import read_text
from holdfast.config.environment import dotenv_bindings, read_dotenv
from holdfast.config.files import diff_lines, write_atomically
from holdfast.core.secrets import mask_passwords


def print_file_diff(path: Path, before: str, after: str) -> bool:
    """False: nothing changes, and nothing was shown."""
    changes = diff_lines(mask_passwords(before), mask_passwords(after))
    if changes:
        click.echo(f"\n{path}:")
        print_diff_lines(changes)
    return bool(changes)


def print_diff_lines(changes: list[str]) -> None:
    for line in changes:
        click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[0])))


def set_env_variable(path: Path, name: str, value: str) -> bool:
    """Set one variable of a `.env` file, which is of mode 0600 afterwards; False: it was so."""
    known = read_dotenv(path)
    if known.values.get(name) == value:
        path.chmod(0o600)
        return False
    written = [(each.key, each.original.string) for each in dotenv_bindings(read_text(path) or "")]
    line = f"{name}={_quote_value(value)}\n"
    if name in known.values:
        last = max(at for at, (key, _) in enumerate(written) if key == name)
        above = written[last][1]
        blank = above[: len(above) - len(above.lstrip())]
        written[last] = (name, blank + line)
    else:
        if written and not written[-1][1].endswith("\n"):
            line = f"\n{line}"
        written.append((name, line))
    write_atomically(path, "".join(text for _, text in written), mode=0o600)
    return True


def _quote_value(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:/+=-]*", value):
        return value
    escaped = re.sub(r"(['\\])", r"\\\1", value)
    return f"'{escaped}'"
