"""Harmless text: what a model or a stranger wrote, without anything that a terminal would obey."""

# It must not move the cursor, set a title or answer for the user.
_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in [*range(32), *range(127, 160)]}
del _CONTROLS[ord("\n")], _CONTROLS[ord("\t")]
_CONTROLS[ord("\r")] = ""


def safe(text: str) -> str:
    return text.translate(_CONTROLS)
