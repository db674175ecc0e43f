"""A question: what a person typed, as an expression that the index understands, or none."""

import re
import unicodedata

import msgspec

_TERM_PATTERN = re.compile(r'(-?)"([^"]*)"?|(\S+)')
_WORD_PATTERN = re.compile(r"\w+")
# Scripts that put no space between words: each character is a word of its own in the index, and
# several in a row are a phrase.
_UNSPACED_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


class SearchTerm(msgspec.Struct, frozen=True, kw_only=True):
    """Words in a row. `begins`: the last one may go on; `unwanted`: it must not be there."""

    words: tuple[str, ...]
    is_prefix: bool = False
    excluded: bool = False

    @property
    def expression(self) -> str:
        return f'"{" ".join(self.words)}"{" *" if self.is_prefix else ""}'


def separate_words(text: str) -> str:
    """The text with its words apart, as it is indexed."""
    return _UNSPACED_SCRIPTS.sub(lambda found: f" {found[0]} ", text)


def parse_terms(typed: str) -> list[SearchTerm]:
    """What is wanted: bare words match words that begin so, words in quotes stand as they are
    and in that order, and a leading minus says that something must not be there."""
    found = (_make_term(*match.groups(default="")) for match in _TERM_PATTERN.finditer(typed))
    return [term for term in found if term.words]


def _make_term(minus: str, quoted: str, bare: str) -> SearchTerm:
    unwanted = bool(minus) or (bare.startswith("-") and len(bare) > 1)
    words = tuple(_split_words(quoted or bare))
    return SearchTerm(words=words, is_prefix=bool(bare), excluded=unwanted)


def _split_words(text: str) -> list[str]:
    return [
        word
        for run in _WORD_PATTERN.findall(separate_words(text))
        for word in run.split("_")
        if word
    ]


def match_expression(wanted: list[SearchTerm]) -> str:
    """For `MATCH`; "": nothing that could be looked for. A question that only excludes
    something asks for nothing."""
    sought = " AND ".join(term.expression for term in wanted if not term.excluded)
    refused = "".join(f" NOT {term.expression}" for term in wanted if term.excluded)
    return f"({sought}){refused}" if sought else ""


def fold_text(text: str) -> str:
    """As the index compares: no case, no marks on letters. As long as the text itself, so that
    a place in one is the same place in the other."""
    return "".join(map(_fold_letter, text))


def _fold_letter(letter: str) -> str:
    if letter.isascii():
        return letter.lower()
    bare = unicodedata.normalize("NFD", letter)[0].lower()
    return bare if len(bare) == 1 else letter
