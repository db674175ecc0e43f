"""The static files of the page: their types, ETags and caching, complete without a build."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, test_utils, web

from holdfast.core.text.translation import EnglishCatalogue, use_catalogue
from holdfast.server.page import static_files


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    application = web.Application()
    application.add_routes(static_files.routes())
    async with (
        test_utils.TestServer(application) as server,
        ClientSession(base_url=server.make_url("/")) as session,
    ):
        yield session


async def test_each_file_has_its_type_and_a_tag(http: ClientSession) -> None:
    types = {
        "/": "text/html; charset=utf-8",
        "/page/page.css": "text/css; charset=utf-8",
        "/page/app.js": "text/javascript; charset=utf-8",
        "/page/icon.svg": "image/svg+xml",
    }
    for path, content_type in types.items():
        async with http.get(path) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == content_type
            assert answer.headers["Cache-Control"] == "no-cache"
            tag = answer.headers["ETag"]
        async with http.get(path, headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
            assert await answer.read() == b""
        async with http.get(path, headers={"If-None-Match": '"older"'}) as answer:
            assert answer.status == 200


async def test_files_of_the_page_are_cached_for_good_by_version(http: ClientSession) -> None:
    """A browser caches a file for good under an address with its version. The address of an older
    version serves the current file, which is then not cached."""
    async with http.get("/") as answer:
        preloaded = re.findall(r'(?:href|src)="(/page/[^"]+)"', await answer.text())
    (version,) = {path.split("/")[2] for path in preloaded}
    for path in preloaded:
        async with http.get(path) as answer:
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
    async with http.get(preloaded[-1].replace(version, "~0123456789abcdef")) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-cache")
    for path in (f"/page/{version}", f"/page/{version}/", f"/page/{version}/{version}/app.js"):
        async with http.get(path) as answer:
            assert answer.status == 404


async def test_a_translation_is_cached_for_good_by_version_and_language(tmp_path: Path) -> None:
    class Portuguese(EnglishCatalogue):
        language = "pt-BR"

    (tmp_path / "pt_BR").mkdir()
    (tmp_path / "pt_BR" / "page.json").write_text('{"language": "pt-BR"}')
    application = web.Application()
    application.add_routes(static_files.routes(locale=tmp_path))
    with use_catalogue(Portuguese()):
        async with (
            test_utils.TestServer(application) as server,
            ClientSession(base_url=server.make_url("/")) as session,
        ):
            async with session.get("/") as answer:
                found = re.search(r"/page/(~\w+)/", await answer.text())
            assert found is not None
            async with session.get(f"/page/{found[1]}/catalogue.json") as answer:
                assert await answer.json() == {"language": "pt-BR"}
                assert "immutable" in answer.headers["Cache-Control"]
                assert answer.headers["Vary"] == "Accept-Language"


async def test_nothing_but_the_page_is_served(http: ClientSession) -> None:
    outside = ("/page/", "/page/index.html", "/page/../site.py", "/page/%2e%2e/site.py")
    for path in (*outside, "/page/vendor/LICENSE-htm"):
        async with http.get(path) as answer:
            assert answer.status == 404


async def test_a_head_request_has_the_headers_of_a_get(http: ClientSession) -> None:
    async with http.head("/page/app.js") as answer:
        assert answer.status == 200
        assert int(answer.headers["Content-Length"]) > 0


def test_every_module_is_named_in_the_page_or_loaded_when_a_view_is_opened() -> None:
    """A module that the page does not name is fetched only after the module that imports it; of
    the dashboard, the first paint of a chat waits for the frame alone."""
    index = (static_files.STATIC_DIRECTORY / "index.html").read_text()
    modules = {
        path.relative_to(static_files.STATIC_DIRECTORY).as_posix()
        for path in static_files.STATIC_DIRECTORY.rglob("*.js")
    }
    preloaded = set(re.findall(r'(?:href|src)="/page/([^"]+\.js)"', index))
    assert preloaded == {"theme.js", *imported_modules("app.js")}
    views = re.findall(
        r'import\("\./([^"]+)"\)', (static_files.STATIC_DIRECTORY / "views.js").read_text()
    )
    later = set().union(*(imported_modules(view) for view in views))
    assert modules == preloaded | later
    assert {name.partition("/")[0] for name in later - preloaded} == {"board"}


def imported_modules(name: str) -> set[str]:
    """A module with everything that it imports; each imported file exists."""
    found, ahead = set[str](), [name]
    while ahead:
        if (at := ahead.pop()) in found:
            continue
        found.add(at)
        path = static_files.STATIC_DIRECTORY / at
        for other in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            target = (path.parent / other).resolve()
            assert target.is_file(), f"{at} imports {other}"
            ahead.append(target.relative_to(static_files.STATIC_DIRECTORY).as_posix())
    return found


def test_no_script_turns_text_into_html() -> None:
    """Texts become text nodes: no API is used that would parse them as HTML."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
        r"createContextualFragment|setHTMLUnsafe|DOMParser"
    )
    own = [
        path for path in static_files.STATIC_DIRECTORY.rglob("*.js") if "vendor" not in path.parts
    ]
    assert [path.name for path in own if forbidden.search(path.read_text())] == []
    assert not re.search(
        r"<script>|\sstyle=|\son\w+=", (static_files.STATIC_DIRECTORY / "index.html").read_text()
    )


def test_vendored_code_comes_with_its_licence() -> None:
    names = {path.name for path in (static_files.STATIC_DIRECTORY / "vendor").iterdir()}
    assert names == {"preact-htm.module.js", "LICENSE-htm", "LICENSE-preact", "VERSIONS"}
