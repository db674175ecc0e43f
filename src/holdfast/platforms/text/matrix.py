"""Matrix: a body of letters, and HTML of the tags that the specification lets clients show.

`formatted_body` is given only where it shows more than `body`
(https://spec.matrix.org/latest/client-server-api/#mroommessage-msgtypes). An event may have 65,536
bytes with all that a server adds to it (…/#size-limits), so both bodies together, as JSON, have to
stay well below that.
"""

from functools import lru_cache

import msgspec

from holdfast.platforms.text.html import PlainAndHtml, blocks_to_html, is_unformatted
from holdfast.platforms.text.plain import plain_text
from holdfast.platforms.text.reading import parse_markdown

MATRIX_MAX_BYTES = (
    56_000  # bytes of both bodies as JSON; an edit carries them twice, so half of it there
)


@lru_cache(maxsize=4)  # what was measured is sent next
def render_matrix(text: str) -> PlainAndHtml:
    """Never empty where the text is not."""
    blocks = parse_markdown(text)
    plain = plain_text(blocks)
    return PlainAndHtml(plain=plain, html="" if is_unformatted(blocks) else blocks_to_html(blocks))


def fits_matrix(text: str, *, limit: int = MATRIX_MAX_BYTES // 2) -> bool:
    both = render_matrix(text)
    return len(msgspec.json.encode((both.plain, both.html))) <= limit
