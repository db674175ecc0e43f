"""Words: what somebody has written this time, apart from what they quote and sign with."""

import re

import msgspec

_SIGNATURE = re.compile(r"-- ?")  # RFC 3676 4.3; some programs take the blank off
_MAX_SIGNATURE_LINES = 12  # lines; above more than that, the two dashes are the writer's own
_SENT_FROM = re.compile(
    r"(Sent from (my|Mail|Outlook|Yahoo|Proton)|Get Outlook for|Gesendet von (meinem|Mail|Outlook)|"
    r"Von meinem \w+ gesendet|Envoyé (de mon|depuis))"
)
_ORIGINAL_MESSAGE_LINE = re.compile(
    r"-{2,} ?(Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original|"
    r"Messaggio originale|Oorspronkelijk bericht) ?-{2,}",
    re.IGNORECASE,
)
# What Outlook puts above the mail that is answered: some such lines in a row.
_HEADING = re.compile(
    r"\*?(From|Sent|To|Cc|Date|Subject|Von|Gesendet|An|Betreff|Datum|De|Envoyé|À|Objet|Da|Inviato|"
    r"Oggetto|Para|Enviado|Asunto|Van|Verzonden|Aan|Onderwerp) ?:\*? \S",
)
_FIRST_HEADING = re.compile(r"\*?(From|Von|De|Da|Van) ?:\*? \S")
_MIN_HEADING_LINES = 3  # lines of it, at the least
_ATTRIBUTION_START = re.compile(r"(On|Am|Le|El|Il|Op|Em|Den|W dniu) ")
# A sentence of the writer may end in a colon, too; this one names an address or a time.
_ATTRIBUTION_DETAIL = re.compile(r"@|\d:\d\d|\d{4}|(wrote|schrieb|écrit) ?:$")
_MAX_ATTRIBUTION_LINES = 3  # lines of "On …, Ann <ann@example.org> wrote:"


class ReplyText(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    quoted: str = ""  # without its marks


def split_reply(text: str, *, is_reply: bool) -> ReplyText:
    """Only a quote above or below everything is cut off: between answers, it says to what they
    are. `answers`: the mail is a reply; one that is none has been forwarded, and what looks quoted
    in it is what it is about."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    if not is_reply:
        return ReplyText(text=_join_lines(_strip_signature(lines)))
    own, below = _split_heading(lines)
    if not below:
        own, below = _split_trailing_quote(lines)
    own, above = _split_leading_quote(own)
    quoted = _join_lines([*above, *below])
    words = _join_lines(_strip_signature(own))
    if not words and not quoted:
        return ReplyText(text=_join_lines(lines))
    return ReplyText(text=words, quoted=quoted)


def _split_heading(lines: list[str]) -> tuple[list[str], list[str]]:
    """From where a program has put the whole mail that is answered, without marks."""
    for number, line in enumerate(lines):
        heading = lines[number : number + 6]
        outlook = _FIRST_HEADING.match(line) and (
            sum(bool(_HEADING.match(each)) for each in heading) >= _MIN_HEADING_LINES
        )
        if outlook or _ORIGINAL_MESSAGE_LINE.fullmatch(line.strip()):
            own = lines[:number]
            while own and not own[-1].strip(" _-*"):
                own.pop()
            return own, lines[number:]
    return lines, []


def _split_trailing_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """The quote at the end, with the line that says whose it is. A signature may follow it."""
    end = len(_strip_signature(lines))
    while end and not lines[end - 1]:
        end -= 1
    start = end
    while start and (_is_quoted(lines[start - 1]) or not lines[start - 1]):
        start -= 1
    if start == end or not any(map(_is_quoted, lines[start:end])):
        return lines, []
    while not _is_quoted(lines[start]):
        start += 1
    quoted = [_unquote(line) for line in lines[start:end]]
    return _strip_attribution(lines[:start]) + lines[end:], quoted


def _split_leading_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """The quote at the beginning, unless there is another one further down."""
    start = next((n for n, line in enumerate(lines) if _is_quoted(line)), None)
    if start is None or _join_lines(_strip_attribution(lines[:start])):
        return lines, []
    end = start
    while end < len(lines) and (_is_quoted(lines[end]) or not lines[end]):
        end += 1
    if any(map(_is_quoted, lines[end:])):
        return lines, []
    return lines[end:], [_unquote(line) for line in lines[start:end]]


def _strip_attribution(lines: list[str]) -> list[str]:
    """Without the line above a quote that says whose it is; it may have been broken into some."""
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    if not kept or not kept[-1].endswith(":"):
        return lines
    for number in range(min(_MAX_ATTRIBUTION_LINES, len(kept)), 0, -1):
        if _ATTRIBUTION_START.match(kept[-number]) and all(kept[-number:]):
            return kept[:-number]
    return kept[:-1] if _ATTRIBUTION_DETAIL.search(kept[-1]) else lines


def _strip_signature(lines: list[str]) -> list[str]:
    for number in range(max(0, len(lines) - _MAX_SIGNATURE_LINES), len(lines)):
        if _SIGNATURE.fullmatch(lines[number]) and not any(map(_is_quoted, lines[number:])):
            return lines[:number]
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept[:-1] if kept and _SENT_FROM.match(kept[-1]) else lines


def _is_quoted(line: str) -> bool:
    return line.startswith(">")


def _unquote(line: str) -> str:
    return re.sub(r"^> ?", "", line)


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n").rstrip()
