"""A request gets texts in the language that its client prefers."""

import json

import pytest
from aiohttp import ClientSession, test_utils
from tests.support.gateway_process import SpawnedGateway

from holdfast.server.languages import accepted_languages, request_catalogue


@pytest.mark.parametrize(
    ("header", "tags"),
    [
        ("de-DE,de;q=0.9,en;q=0.8", ("de-DE", "de", "en")),
        ("en;q=0.5, fr", ("fr", "en")),
        ("de;q=0, *;q=0.1, en;q=0.2", ("en",)),
        ("de;q=high,en", ("en",)),
        ("", ()),
        (";;,,", ()),
    ],
)
def test_languages_are_in_the_order_of_preference(header: str, tags: tuple[str, ...]) -> None:
    assert accepted_languages(header) == tags


@pytest.mark.parametrize(
    ("headers", "default", "language"),
    [
        ({"Accept-Language": "xx,en-XA;q=0.5,en;q=0.1"}, "", "en-XA"),
        ({"Accept-Language": "en-GB,en-XA;q=0.5"}, "en-XA", "en"),
        ({"Accept-Language": "xx"}, "en-XA", "en"),
        ({}, "en-XA", "en-XA"),
        ({}, "", "en"),
    ],
)
def test_the_setting_is_for_clients_that_state_no_language(
    headers: dict[str, str], default: str, language: str
) -> None:
    request = test_utils.make_mocked_request("GET", "/", headers=headers)
    assert request_catalogue(request, default).language == language


async def test_the_page_gets_the_texts_of_the_browsers_language(
    shared_gateway: SpawnedGateway,
) -> None:
    async with ClientSession(shared_gateway.address) as http:
        for accepted, language in (("en-XA", "en-XA"), ("en-GB", "en"), ("xx", "en")):
            headers = {"Accept-Language": accepted}
            async with http.get("/page/catalogue.json", headers=headers) as answer:
                catalogue = json.loads(await answer.read())
                tag = answer.headers["ETag"]
                assert answer.headers["Vary"] == "Accept-Language"
            assert catalogue == {"language": language, "plurals": "", "texts": {}}
            headers |= {"If-None-Match": tag}
            async with http.get("/page/catalogue.json", headers=headers) as answer:
                assert (answer.status, answer.headers["Vary"]) == (304, "Accept-Language")
