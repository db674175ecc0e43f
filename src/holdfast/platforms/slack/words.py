"""Words: what people write in Slack, out of the marks that it comes in.

https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are escaped, and between
angle brackets stand people (`<@U1>`), channels (`<#C1|name>`), special words (`<!here>`) and links.
"""

import html
import re

_REFERENCE = re.compile(r"<([^<>]+)>")
_REFERENCE_PREFIXES = "@#!"


def plain_text(text: str, *, own_user_id: str) -> str:
    """As a person would read it. Our own name in front is left out, so that what follows it may be
    a command."""
    own = re.compile(rf"\s*<@{re.escape(own_user_id)}(\|[^<>]*)?>[\s:,]*")
    if (found := own.match(text)) is not None:
        text = text[found.end() :]
    return html.unescape(_REFERENCE.sub(_render_reference, text)).strip()


def mentions(text: str, user_id: str) -> bool:
    """Whether somebody is named in it, by Slack's own mark."""
    return f"<@{user_id}>" in text or f"<@{user_id}|" in text


def _render_reference(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    kind, name = target[:1], target[1:]
    if kind not in _REFERENCE_PREFIXES:
        return _render_link(target, label)
    if kind == "!":
        return label or f"@{name.split('^')[0]}"
    return f"{kind}{(label or name).lstrip(kind)}"


def _render_link(address: str, label: str) -> str:
    bare = address.removeprefix("mailto:")
    # Slack makes links of addresses and names of hosts that were typed as such.
    if not label or label in (bare, address) or address in (f"http://{label}", f"https://{label}"):
        return label or bare
    return f"{label} ({bare})"
