"""What a stream of text is able to show: lines alone, a screen that is drawn on, colours."""

import os
from typing import TextIO


def is_dumb(out: TextIO) -> bool:
    """Whether nothing but plain lines can be written there."""
    return not out.isatty() or os.environ.get("TERM", "dumb") == "dumb"


def is_coloured(out: TextIO) -> bool:
    """Whether colours are shown there, and wanted (https://no-color.org)."""
    return not is_dumb(out) and not os.environ.get("NO_COLOR")
