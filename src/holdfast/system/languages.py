"""Finds the packaged translation that suits a person best.

A translation is a compiled gettext catalogue: `holdfast/locale/<language>/LC_MESSAGES/holdfast.mo`,
where `<language>` is written as gettext does (`de`, `pt_BR`). English is in the code and needs no
file, and neither does the pseudo-locale `en-XA`, which shows what is marked for translation.
"""

from functools import cache, lru_cache
from pathlib import Path

from holdfast.core.text.translation import ENGLISH, Catalogue

LOCALE_FOLDER = Path(__file__).parent.parent / "locale"
DOMAIN = "holdfast"
PSEUDO_LOCALE = "en-XA"
_MAX_HEADER = 300  # characters; a browser with ten languages sends 100
_MAX_LANGUAGES = 20
_POSIX_ENGLISH = ("c", "posix")


class PseudoCatalogue:
    """Wraps each translated text as ⟦…⟧. A text without the brackets is not marked."""

    language = PSEUDO_LOCALE

    def gettext(self, message: str, /) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, singular: str, plural: str, n: int, /) -> str:
        return f"⟦{ENGLISH.ngettext(singular, plural, n)}⟧"


def catalogue_for(*tags: str | None, folder: Path = LOCALE_FOLDER) -> Catalogue:
    """The catalogue of the first tag whose language is available; English if none is.

    Tags are as HTTP, chat platforms or `LANG` write them: `de-AT`, `pt_BR`, `de_DE.UTF-8`. Empty
    tags and None are skipped. `de-AT` is served by `de`, and `pt` by `pt-BR` if there is no `pt`.
    """
    for tag in tags:
        if tag and (language := match_language(tag, folder=folder)) is not None:
            return _catalogue(language, folder)
    return ENGLISH


def match_language(tag: str, *, folder: Path = LOCALE_FOLDER) -> str | None:
    """The available language that suits a tag best; None if there is none."""
    wanted = tag.partition(".")[0].partition("@")[0].replace("_", "-").lower()
    if wanted in _POSIX_ENGLISH:
        return ENGLISH.language
    available = {language.lower(): language for language in available_languages(folder=folder)}
    parts = wanted.split("-")
    for length in range(len(parts), 0, -1):
        if (language := available.get("-".join(parts[:length]))) is not None:
            return language
    regions = (each for key, each in available.items() if key.startswith(f"{parts[0]}-"))
    return next(regions, None)


@cache
def available_languages(*, folder: Path = LOCALE_FOLDER) -> tuple[str, ...]:
    """The languages to choose from, as HTTP and HTML write them; English first."""
    files = folder.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")
    packaged = sorted(file.parent.parent.name.replace("_", "-") for file in files)
    return ENGLISH.language, *packaged, PSEUDO_LOCALE


def translated_languages(*, folder: Path = LOCALE_FOLDER) -> tuple[str, ...]:
    """Those that have a translation: without English and the pseudo-locale."""
    return available_languages(folder=folder)[1:-1]


@lru_cache(maxsize=64)
def accepted_languages(header: str) -> tuple[str, ...]:
    """The tags of an `Accept-Language`, the preferred one first; `*` states no language."""
    weighted = [_weighted(part) for part in header[:_MAX_HEADER].split(",")[:_MAX_LANGUAGES]]
    weighted.sort(key=lambda each: -each[0])  # stable: of equal weight, the first comes first
    return tuple(tag for weight, tag in weighted if weight > 0 and tag not in ("", "*"))


def _weighted(part: str) -> tuple[float, str]:
    tag, _, parameter = part.partition(";")
    name, _, value = parameter.partition("=")
    try:
        weight = float(value) if name.strip().lower() == "q" else 1.0
    except ValueError:
        weight = 0.0
    return weight, tag.strip()


@cache
def _catalogue(language: str, folder: Path) -> Catalogue:
    if language == ENGLISH.language:
        return ENGLISH
    if language == PSEUDO_LOCALE:
        return PseudoCatalogue()
    from gettext import GNUTranslations  # noqa: PLC0415 - most gateways speak English

    class PackagedCatalogue(GNUTranslations):
        @property
        def language(self) -> str:
            return language

    with (folder / language.replace("-", "_") / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as file:
        return PackagedCatalogue(file)
