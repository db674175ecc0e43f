"""Marks: characters that stand, in a text, for what cannot be known before it runs."""

UNKNOWN = "\ue000"  # some text
READ = "\ue001"  # what a file holds
NET = "\ue002"  # what came over the network
CODED = "\ue003"  # the text beside it had been encoded

MARKS = UNKNOWN + READ + NET + CODED

# Only inside the expansion of one word: where it splits, and the braces that were not quoted.
SPLIT = "\ue010"
OPEN = "\ue011"
COMMA = "\ue012"
CLOSE = "\ue013"

_BARE = dict.fromkeys(map(ord, MARKS))
_TYPED = dict.fromkeys(range(0xE000, 0xE020), "?")


def cleaned(text: str) -> str:
    """The text with marks that somebody typed made harmless, and nothing that has no bytes."""
    return text.translate(_TYPED).encode("utf-8", "replace").decode()


def bare(text: str) -> str:
    return text.translate(_BARE)


def marks_of(text: str) -> str:
    """Which marks the text has, each once."""
    return "".join(mark for mark in MARKS if mark in text)


def shown(text: str) -> str:
    """The text as people may see it."""
    for mark in MARKS:
        text = text.replace(mark, "…" if mark != CODED else "")
    return text
