"""E-mail: `text/plain` and `text/html` of one message. Neither has a greatest length.

The HTML is one without styles, pictures or scripts: what mail readers take off anyway, and what
would tell a sender that somebody has read.
"""

from holdfast.platforms.text.html import PlainAndHtml, blocks_to_html, is_unformatted
from holdfast.platforms.text.plain import plain_text
from holdfast.platforms.text.reading import parse_markdown


def render_email(text: str) -> PlainAndHtml:
    """Never empty where the text is not. Without marks there is no HTML: plain mail is mail."""
    blocks = parse_markdown(text)
    plain = plain_text(blocks)
    if is_unformatted(blocks):
        return PlainAndHtml(plain=plain)
    head = '<html><head><meta charset="utf-8"></head><body>'
    return PlainAndHtml(
        plain=plain, html=f"<!DOCTYPE html>{head}{blocks_to_html(blocks)}</body></html>"
    )
