"""Matrix: a body of letters, and HTML of the tags that the specification lets clients show.

`formatted_body` is given only where it shows more than `body`
(https://spec.matrix.org/latest/client-server-api/#mroommessage-msgtypes). An event may have 65,536
bytes with all that a server adds to it (…/#size-limits), so both bodies together, as JSON, have to
stay well below that.
"""

from functools import lru_cache

import msgspec

from holdfast.platforms.text.html import Both, html_of, is_unformatted
from holdfast.platforms.text.plain import shown
from holdfast.platforms.text.reading import read

LONGEST = 56_000  # bytes of both bodies as JSON; an edit carries them twice, so half of it there


@lru_cache(maxsize=4)  # what was measured is sent next
def render(text: str) -> Both:
    """Never empty where the text is not."""
    blocks = read(text)
    plain = shown(blocks)
    return Both(plain=plain, html="" if is_unformatted(blocks) else html_of(blocks))


def fits(text: str, *, limit: int = LONGEST // 2) -> bool:
    both = render(text)
    return len(msgspec.json.encode((both.plain, both.html))) <= limit
