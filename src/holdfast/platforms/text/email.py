"""E-mail: `text/plain` and `text/html` of one message. Neither has a greatest length.

The HTML is one without styles, pictures or scripts: what mail readers take off anyway, and what
would tell a sender that somebody has read.
"""

from holdfast.platforms.text.html import Both, html_of, is_unformatted
from holdfast.platforms.text.plain import shown
from holdfast.platforms.text.reading import read


def render(text: str) -> Both:
    """Never empty where the text is not. Without marks there is no HTML: plain mail is mail."""
    blocks = read(text)
    plain = shown(blocks)
    if is_unformatted(blocks):
        return Both(plain=plain)
    head = '<html><head><meta charset="utf-8"></head><body>'
    return Both(plain=plain, html=f"<!DOCTYPE html>{head}{html_of(blocks)}</body></html>")
