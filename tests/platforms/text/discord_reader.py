"""Reads a message by the rules of Discord's clients: returns the text that a user sees."""

import re

# The rules by which Discord's clients read a message: those of simple-markdown, on which their
# parser is built (https://github.com/ariabuckles/simple-markdown), with the changes that
# https://github.com/brussell98/discord-markdown collects. The first that matches is taken.
_FIRST = {
    "escape": r"\\([^0-9A-Za-z\s])",
    "autolink": r"<(https?://[^ >]+)>",
    "url": r"((?:https?|steam)://[^\s<]+[^<.,:;\"'\]\s])",
    "mention": r"<(@[!&]?\d+|#\d+|a?:\w+:\d+|t:-?\d+(?::\w)?|/[\w ]+:\d+)>",
    "link": r"\[((?:\\.|[^\[\]\\])*)\]\(\s*<?((?:\([^)]*\)|[^\s\\<>]|\\.)*?)>?\s*\)",
}
# Of these the one that takes most.
_LONGEST = {
    "em": r"_((?:__|\\[\s\S]|[^\\_])+?)_(?!\w)",
    "star": r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)",
    "strong": r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)",
    "underline": r"__((?:\\[\s\S]|[^\\])+?)__(?!_)",
}
_LAST = {
    "strike": r"~~([\s\S]+?)~~(?!_)",
    "spoiler": r"\|\|([\s\S]+?)\|\|",
    "code": r"(`+)([\s\S]*?[^`])\1(?!`)",
}
_FENCE = re.compile(r"```(?:[a-z0-9_+\-.#]+?\n)?\n*([^\n][\s\S]*?)\n*```", re.IGNORECASE)
_QUOTE = re.compile(r"(?:> [^\n]*(?:\n|$))+")
_HEAD = re.compile(r"(?:#{1,3}|-#)\s+(?=\S)")
_BULLET = re.compile(r" *[*-](?: +|$)")


def discord_text(text: str) -> str:
    """The visible text of a message, without formatting marks and bullets."""
    rest, found = text, []
    while rest:
        if quote := _QUOTE.match(rest):
            found.append(discord_text(re.sub("(?m)^> ", "", quote[0])))
            rest = rest[quote.end() :]
            continue
        if fence := _FENCE.match(rest):
            found.append(fence[1])
            rest = rest[fence.end() :]
            continue
        line, _, rest = rest.partition("\n")
        line = line[bullet.end() :] if (bullet := _BULLET.match(line)) else line
        line = line[head.end() :] if (head := _HEAD.match(line)) else line
        found.append(_inline(line))
    return "\n".join(found)


def _inline(text: str) -> str:
    found = []
    while text:
        rule, match = _first_match(text)
        if match is None:
            found.append(text[0])
            text = text[1:]
            continue
        found.append(_read(rule, match))
        text = text[match.end() :]
    return "".join(found)


def _first_match(text: str) -> tuple[str, re.Match[str] | None]:
    for rule, pattern in _FIRST.items():
        if match := re.match(pattern, text):
            return rule, match
    longest = [(rule, match) for rule, p in _LONGEST.items() if (match := re.match(p, text))]
    if longest:
        return max(longest, key=lambda each: each[1].end())
    for rule, pattern in _LAST.items():
        if match := re.match(pattern, text):
            return rule, match
    return "", None


def _read(rule: str, match: re.Match[str]) -> str:
    if rule in ("escape", "autolink", "url"):
        return match[1]
    if rule == "mention":
        return "(somebody is called)"
    return match[2] if rule == "code" else _inline(match[1])
