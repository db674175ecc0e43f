"""Harmless text: what a model or a stranger wrote, without anything that a terminal would obey."""

# It must not move the cursor, set a title or answer for the user.
_CONTROL_CHARACTERS = {code: "\N{REPLACEMENT CHARACTER}" for code in [*range(32), *range(127, 160)]}
del _CONTROL_CHARACTERS[ord("\n")], _CONTROL_CHARACTERS[ord("\t")]
_CONTROL_CHARACTERS[ord("\r")] = ""


def sanitize(text: str) -> str:
    return text.translate(_CONTROL_CHARACTERS)
