"""The language of a request: of the texts of the page, and of the errors of the API."""

from functools import lru_cache

from aiohttp import hdrs, web

from holdfast.core.text.translation import Catalogue
from holdfast.system.languages import catalogue_for

_MAX_HEADER = 300  # characters; a browser with ten languages sends 100
_MAX_LANGUAGES = 20


def request_catalogue(request: web.Request, default: str) -> Catalogue:
    """The translation that suits the request's `Accept-Language` best. A client that states no
    language, as scripts do, gets `default`."""
    header = request.headers.get(hdrs.ACCEPT_LANGUAGE, "")
    return catalogue_for(*(accepted_languages(header[:_MAX_HEADER]) or (default,)))


@lru_cache(maxsize=64)
def accepted_languages(header: str) -> tuple[str, ...]:
    """The tags of an `Accept-Language`, the preferred one first; `*` states no language."""
    weighted = [_weighted(part) for part in header.split(",")[:_MAX_LANGUAGES]]
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
