"""The lines in which two texts of a file differ, as people read them."""

import difflib


def diff_lines(before: str, after: str, *, around: int = 1) -> list[str]:
    """Those that go (`-`) and come (`+`), with some around them; none: they are equal."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    return [*lines][2:]
