"""A quote: what a message answers, as the platform shows it beside it."""

import msgspec

from holdfast.core.messages.source import sanitise_name

_MAX_QUOTE_LENGTH = (
    1000  # characters; whoever answers a long text has it before their eyes, in outline
)


class Quote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`ours`: the account that brings the message wrote it. A platform that does not say what was
    answered leaves the text empty, and one that does not know whose it is leaves the names."""

    text: str = ""
    user_id: str | None = None
    user_name: str | None = None
    message_id: str | None = None
    ours: bool = False


def format_quote(quote: Quote) -> str | None:
    """What the agent reads in front of the answer; None: nothing is known of it.

    Each line is marked: nothing that is quoted can look like the words of whoever quotes it, nor
    like a note of ours.
    """
    if not quote.text.strip():
        return None
    author = "you" if quote.ours else sanitise_name(quote.user_name, quote.user_id) or "somebody"
    cut = (
        quote.text if len(quote.text) <= _MAX_QUOTE_LENGTH else f"{quote.text[:_MAX_QUOTE_LENGTH]}…"
    )
    return "\n".join(f"> {line}".rstrip() for line in (f"{author} wrote:", *cut.splitlines()))
