"""Links for the Markdown parser: URLs without markup become links before emphasis is parsed, and
ordinary addresses are normalised quickly."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from holdfast.platforms.text.markdown import URL_REST, URL_SCHEME, trim_url

# A URL that normalising does not change: an ASCII host, and nothing that needs an escape.
NORMAL_URL = re.compile(
    r"https?://[a-z0-9]{1,40}(?:[.-][a-z0-9]{1,40}){0,4}(?::[1-9][0-9]{0,4})?"
    r"(?:/[A-Za-z0-9/._~-]*)?(?:\?[A-Za-z0-9/._~=&+-]*)?(?:#[A-Za-z0-9/._~=&+-]*)?"
)


class LinkParser(MarkdownIt):
    """The parser, without normalising ordinary URLs: that took a tenth of the time of rendering a
    reply."""

    def normalizeLink(self, url: str) -> str:
        return url if NORMAL_URL.fullmatch(url) else super().normalizeLink(url)


def add_autolinks(parser: MarkdownIt) -> None:
    """Add a rule for URLs without markup. Otherwise an underscore or asterisk in a URL would be
    read as emphasis, and the renderers would escape characters that must stay as they are."""
    parser.inline.ruler.before("escape", "bare_link", _autolink)


def _autolink(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = URL_SCHEME.search(state.pending)
    found = URL_REST.match(state.src, state.pos, state.posMax)
    if scheme is None or found is None:
        return False
    rest = trim_url(found[0])
    href = state.md.normalizeLink(scheme[0] + rest)
    if len(rest) <= len("://") or not state.md.validateLink(href):
        return False
    if not silent:
        _push_link(state, scheme[0], rest, href)
    state.pos += len(rest)
    return True


def _push_link(state: StateInline, scheme: str, rest: str, href: str) -> None:
    state.pending = state.pending[: -len(scheme)]
    link = state.push("link_open", "a", 1)
    link.attrs = {"href": href}
    link.info = "auto"
    state.push("text", "", 0).content = scheme + rest
    state.push("link_close", "a", -1)
