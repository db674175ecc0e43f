"""Bare links: a rule of the parser for addresses without marks, before their signs are read."""

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from holdfast.platforms.text.addresses import REST, SCHEME, ended


def add_bare_links(parser: MarkdownIt) -> None:
    """Without this, an underscore or an asterisk of an address would be read as emphasis, and
    the renderers would escape what has to stay as it is."""
    parser.inline.ruler.before("escape", "bare_link", _bare_link)


def _bare_link(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = SCHEME.search(state.pending)
    found = REST.match(state.src, state.pos, state.posMax)
    if scheme is None or found is None:
        return False
    rest = ended(found[0])
    href = state.md.normalizeLink(scheme[0] + rest)
    if len(rest) <= len("://") or not state.md.validateLink(href):
        return False
    if not silent:
        _push(state, scheme[0], rest, href)
    state.pos += len(rest)
    return True


def _push(state: StateInline, scheme: str, rest: str, href: str) -> None:
    state.pending = state.pending[: -len(scheme)]
    link = state.push("link_open", "a", 1)
    link.attrs = {"href": href}
    link.info = "auto"
    state.push("text", "", 0).content = scheme + rest
    state.push("link_close", "a", -1)
