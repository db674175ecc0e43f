"""Words: what people write in Slack, out of the marks that it comes in.

https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are escaped, and between
angle brackets stand people (`<@U1>`), channels (`<#C1|name>`), special words (`<!here>`) and links.
"""

import html
import re

_MARK = re.compile(r"<([^<>]+)>")
_KINDS = "@#!"


def plain(text: str, *, me: str) -> str:
    """As a person would read it. Our own name in front is left out, so that what follows it may be
    a command."""
    own = re.compile(rf"\s*<@{re.escape(me)}(\|[^<>]*)?>[\s:,]*")
    if (found := own.match(text)) is not None:
        text = text[found.end() :]
    return html.unescape(_MARK.sub(_shown, text)).strip()


def names(text: str, user: str) -> bool:
    """Whether somebody is named in it, by Slack's own mark."""
    return f"<@{user}>" in text or f"<@{user}|" in text


def _shown(mark: re.Match[str]) -> str:
    target, _, label = mark[1].partition("|")
    kind, name = target[:1], target[1:]
    if kind not in _KINDS:
        return _link(target, label)
    if kind == "!":
        return label or f"@{name.split('^')[0]}"
    return f"{kind}{(label or name).lstrip(kind)}"


def _link(address: str, label: str) -> str:
    bare = address.removeprefix("mailto:")
    # Slack makes links of addresses and names of hosts that were typed as such.
    if not label or label in (bare, address) or address in (f"http://{label}", f"https://{label}"):
        return label or bare
    return f"{label} ({bare})"
