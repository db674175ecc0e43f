"""A question: what a person typed, as an expression that the index understands, or none."""

import re
import unicodedata

import msgspec

_QUOTED = re.compile(r'(-?)"([^"]*)"?|(\S+)')
_WORD = re.compile(r"\w+")
# Scripts that put no space between words: each character is a word of its own in the index, and
# several in a row are a phrase.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """Words in a row. `begins`: the last one may go on; `unwanted`: it must not be there."""

    words: tuple[str, ...]
    begins: bool = False
    unwanted: bool = False

    @property
    def expression(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.begins else ""}'


def spaced(text: str) -> str:
    """The text with its words apart, as it is indexed."""
    return _UNSPACED.sub(lambda found: f" {found[0]} ", text)


def terms(typed: str) -> list[Term]:
    """What is wanted: bare words match words that begin so, words in quotes stand as they are
    and in that order, and a leading minus says that something must not be there."""
    found = (_term(*match.groups(default="")) for match in _QUOTED.finditer(typed))
    return [term for term in found if term.words]


def _term(minus: str, quoted: str, bare: str) -> Term:
    unwanted = bool(minus) or (bare.startswith("-") and len(bare) > 1)
    words = tuple(_words(quoted or bare))
    return Term(words=words, begins=bool(bare), unwanted=unwanted)


def _words(text: str) -> list[str]:
    return [word for run in _WORD.findall(spaced(text)) for word in run.split("_") if word]


def expression(wanted: list[Term]) -> str:
    """For `MATCH`; "": nothing that could be looked for. A question that only excludes
    something asks for nothing."""
    sought = " AND ".join(term.expression for term in wanted if not term.unwanted)
    refused = "".join(f" NOT {term.expression}" for term in wanted if term.unwanted)
    return f"({sought}){refused}" if sought else ""


def folded(text: str) -> str:
    """As the index compares: no case, no marks on letters. As long as the text itself, so that
    a place in one is the same place in the other."""
    return "".join(map(_folded, text))


def _folded(letter: str) -> str:
    if letter.isascii():
        return letter.lower()
    bare = unicodedata.normalize("NFD", letter)[0].lower()
    return bare if len(bare) == 1 else letter
