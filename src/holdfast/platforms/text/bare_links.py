"""Bare links: addresses that stand in a text without marks, found before their signs are read."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

_SCHEME = re.compile(r"(?:^|(?<=[^a-zA-Z0-9]))https?$", re.IGNORECASE)
_ADDRESS = re.compile(r"://[^\s<>\"`\\^{}|\[\]]+")
_NOT_LAST = "*_~.,;:!?'"  # these end the sentence or the emphasis around an address


def add_bare_links(parser: MarkdownIt) -> None:
    """Without this, an underscore or an asterisk of an address would be read as emphasis, and
    the renderers would escape what has to stay as it is."""
    parser.inline.ruler.before("escape", "bare_link", _bare_link)


def _bare_link(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = _SCHEME.search(state.pending)
    found = _ADDRESS.match(state.src, state.pos, state.posMax)
    if scheme is None or found is None:
        return False
    address = scheme[0] + _ended(found[0])
    if len(address) - len(scheme[0]) <= len("://"):
        return False
    href = state.md.normalizeLink(address)
    if not state.md.validateLink(href):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme[0])]
        state.push("link_open", "a", 1).attrs = {"href": href}
        state.tokens[-1].info = "auto"
        state.push("text", "", 0).content = address
        state.push("link_close", "a", -1)
    state.pos += len(address) - len(scheme[0])
    return True


def _ended(address: str) -> str:
    """Without the marks behind it, and without a bracket that was opened before it."""
    while True:
        shorter = address.rstrip(_NOT_LAST)
        if shorter.endswith(")") and shorter.count("(") < shorter.count(")"):
            shorter = shorter[:-1]
        if shorter == address:
            return address
        address = shorter
