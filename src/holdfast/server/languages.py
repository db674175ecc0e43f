"""The language of a request: of the texts of the page, and of the errors of the API."""

from aiohttp import hdrs, web

from holdfast.core.text.translation import Catalogue
from holdfast.system.languages import accepted_languages, catalogue_for


def request_catalogue(request: web.Request, default: str) -> Catalogue:
    """The translation that suits the request's `Accept-Language` best. A client that states no
    language, as scripts do, gets `default`."""
    header = request.headers.get(hdrs.ACCEPT_LANGUAGE, "")
    return catalogue_for(*(accepted_languages(header) or (default,)))
