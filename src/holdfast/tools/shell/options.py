"""Options: what is an option of a command and what it is about, read as getopt would."""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec


class ParsedOptions(msgspec.Struct, frozen=True, kw_only=True):
    shorts: str
    longs: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    values: tuple[tuple[str, str], ...] = ()  # of short options

    def has(self, shorts: str, *longs: str) -> bool:
        """Whether one of these is given, a long one perhaps by its beginning."""
        return any(short in self.shorts for short in shorts) or any(
            len(given) > 1 and long.startswith(given) for given, _ in self.longs for long in longs
        )

    def value(self, short: str, *longs: str) -> str | None:
        for name, value in self.values:
            if name in short:
                return value
        for given, value in self.longs:
            if any(len(given) > 1 and long.startswith(given) for long in longs):
                return value
        return None


def parse_options(
    args: Sequence[str],
    *,
    valued: str = "",
    valued_longs: Iterable[str] = (),
    mixed: bool = True,
) -> ParsedOptions:
    """`valued`: short options that take a value. Not `mixed`: operands end the options, as with
    a command that runs another."""
    shorts, operands = "", list[str]()
    longs: list[tuple[str, str]] = []
    values: list[tuple[str, str]] = []
    takes = tuple(valued_longs)
    rest = deque(args)
    while rest:
        word = rest.popleft()
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name in takes and rest:
                value = rest.popleft()
            longs.append((name, value))
        elif len(word) > 1 and word[0] == "-":
            shorts += _parse_shorts(word[1:], rest, valued, values)
        elif mixed:
            operands.append(word)
        else:
            operands += [word, *rest]
            break
    return ParsedOptions(
        shorts=shorts, longs=tuple(longs), operands=tuple(operands), values=tuple(values)
    )


def _parse_shorts(
    cluster: str, rest: deque[str], valued: str, values: list[tuple[str, str]]
) -> str:
    for at, letter in enumerate(cluster):
        if letter in valued:
            value = cluster[at + 1 :] or (rest.popleft() if rest else "")
            values.append((letter, value))
            return cluster[: at + 1]
    return cluster
