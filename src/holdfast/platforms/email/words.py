"""Words: what somebody has written this time, apart from what they quote and sign with."""

import re

import msgspec

_SIGNATURE = re.compile(r"-- ?")  # RFC 3676 4.3; some programs take the blank off
_LONGEST_SIGNATURE = 12  # lines; above more than that, the two dashes are the writer's own
_SENT_FROM = re.compile(
    r"(Sent from (my|Mail|Outlook|Yahoo|Proton)|Get Outlook for|Gesendet von (meinem|Mail|Outlook)|"
    r"Von meinem \w+ gesendet|Envoyé (de mon|depuis))"
)
_ORIGINAL = re.compile(
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
_WHOLE_HEADING = 3  # lines of it, at the least
_BEGINS = re.compile(r"(On|Am|Le|El|Il|Op|Em|Den|W dniu) ")
# A sentence of the writer may end in a colon, too; this one names an address or a time.
_SAYS_WHOSE = re.compile(r"@|\d:\d\d|\d{4}|(wrote|schrieb|écrit) ?:$")
_LONGEST_ATTRIBUTION = 3  # lines of "On …, Ann <ann@example.org> wrote:"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    words: str
    quoted: str = ""  # without its marks


def parted(text: str, *, answers: bool) -> Written:
    """Only a quote above or below everything is cut off: between answers, it says to what they
    are. `answers`: the mail is a reply; one that is none has been forwarded, and what looks quoted
    in it is what it is about."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    if not answers:
        return Written(words=_joined(_unsigned(lines)))
    own, below = _cut_heading(lines)
    if not below:
        own, below = _cut_below(lines)
    own, above = _cut_above(own)
    quoted = _joined([*above, *below])
    words = _joined(_unsigned(own))
    if not words and not quoted:
        return Written(words=_joined(lines))
    return Written(words=words, quoted=quoted)


def _cut_heading(lines: list[str]) -> tuple[list[str], list[str]]:
    """From where a program has put the whole mail that is answered, without marks."""
    for number, line in enumerate(lines):
        heading = lines[number : number + 6]
        outlook = _FIRST_HEADING.match(line) and (
            sum(bool(_HEADING.match(each)) for each in heading) >= _WHOLE_HEADING
        )
        if outlook or _ORIGINAL.fullmatch(line.strip()):
            own = lines[:number]
            while own and not own[-1].strip(" _-*"):
                own.pop()
            return own, lines[number:]
    return lines, []


def _cut_below(lines: list[str]) -> tuple[list[str], list[str]]:
    """The quote at the end, with the line that says whose it is. A signature may follow it."""
    end = len(_unsigned(lines))
    while end and not lines[end - 1]:
        end -= 1
    start = end
    while start and (_is_quoted(lines[start - 1]) or not lines[start - 1]):
        start -= 1
    if start == end or not any(map(_is_quoted, lines[start:end])):
        return lines, []
    while not _is_quoted(lines[start]):
        start += 1
    quoted = [_unquoted(line) for line in lines[start:end]]
    return _without_attribution(lines[:start]) + lines[end:], quoted


def _cut_above(lines: list[str]) -> tuple[list[str], list[str]]:
    """The quote at the beginning, unless there is another one further down."""
    start = next((n for n, line in enumerate(lines) if _is_quoted(line)), None)
    if start is None or _joined(_without_attribution(lines[:start])):
        return lines, []
    end = start
    while end < len(lines) and (_is_quoted(lines[end]) or not lines[end]):
        end += 1
    if any(map(_is_quoted, lines[end:])):
        return lines, []
    return lines[end:], [_unquoted(line) for line in lines[start:end]]


def _without_attribution(lines: list[str]) -> list[str]:
    """Without the line above a quote that says whose it is; it may have been broken into some."""
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    if not kept or not kept[-1].endswith(":"):
        return lines
    for number in range(min(_LONGEST_ATTRIBUTION, len(kept)), 0, -1):
        if _BEGINS.match(kept[-number]) and all(kept[-number:]):
            return kept[:-number]
    return kept[:-1] if _SAYS_WHOSE.search(kept[-1]) else lines


def _unsigned(lines: list[str]) -> list[str]:
    for number in range(max(0, len(lines) - _LONGEST_SIGNATURE), len(lines)):
        if _SIGNATURE.fullmatch(lines[number]) and not any(map(_is_quoted, lines[number:])):
            return lines[:number]
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept[:-1] if kept and _SENT_FROM.match(kept[-1]) else lines


def _is_quoted(line: str) -> bool:
    return line.startswith(">")


def _unquoted(line: str) -> str:
    return re.sub(r"^> ?", "", line)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n").rstrip()
