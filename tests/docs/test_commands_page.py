"""docs/commands.md: every command, as the one table has it."""

import re

from tests.support.doc_pages import Pages

from holdfast.core.commands import COMMANDS, CommandSpec, Permission


def _line(spec: CommandSpec) -> str:
    remarks = [
        f"Also {', '.join(f'`/{alias}`' for alias in spec.aliases)}." if spec.aliases else "",
        "" if spec.allowed_mid_turn else "Not while a turn runs.",
        "For operators." if spec.permission is Permission.OPERATE else "",
    ]
    return " ".join(filter(None, (f"- `{spec.usage}`: {spec.help}.", *remarks)))


def test_the_page_has_every_command_of_the_table(page: Pages) -> None:
    """Names, arguments, help and permissions stand in one table; the page says what it says."""
    shown = re.findall(r"^- `/.*$", page("docs/commands.md").text, re.MULTILINE)
    wanted = [_line(spec) for spec in COMMANDS]
    assert shown == wanted, "docs/commands.md should list:\n" + "\n".join(wanted)
