"""The fetch tool: a page becomes text, and no private address is reached."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from aiohttp import web

from holdfast.core.ids import CallId, PrincipalId, SessionId
from holdfast.core.net import IpAddress
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.text.html import decode_page, html_to_text
from holdfast.core.turns.tool import ToolContext, ToolFailed
from holdfast.system.egress import EgressPolicy
from holdfast.tools.fetch import FetchTool

PAGE = """<html><head><title>A  title</title><style>p {}</style></head><body>
<script>var x = "<p>no</p>"</script><h1>Head</h1><p>Some <b>bold</b>
text &amp; <a href="/next">a link</a>.</p><ul><li>one<li>two</ul><pre>a  b
 c</pre><noscript>never</noscript></body></html>"""


def only_loopback(address: IpAddress) -> bool:
    return str(address) == "127.0.0.1"


class PageServer:
    """A server on loopback that records the requested paths."""

    def __init__(self) -> None:
        self.requested_paths: list[str] = []
        self.address = ""

    async def page(self, request: web.Request) -> web.StreamResponse:
        self.requested_paths.append(request.path)
        kind = request.match_info["kind"]
        if kind == "loop":
            raise web.HTTPFound("/loop")
        if kind == "inward":
            raise web.HTTPFound(request.query["to"])
        if kind == "slow":
            await asyncio.sleep(30)
        if kind == "huge":
            return web.Response(text="x" * 300_000)
        if kind == "binary":
            return web.Response(body=b"\0", content_type="image/png")
        if kind == "missing":
            return web.Response(text="gone", status=404)
        if kind == "latin":
            return web.Response(
                body="café".encode("latin-1"),
                headers={"Content-Type": "text/plain; charset=latin-1"},
            )
        return web.Response(text=PAGE, content_type="text/html")


@pytest.fixture
async def site() -> AsyncIterator[PageServer]:
    site = PageServer()
    app = web.Application()
    app.router.add_get("/{kind}", site.page)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    tcp = web.TCPSite(runner, "127.0.0.1", 0)
    await tcp.start()
    port = runner.addresses[0][1]
    site.address = f"http://127.0.0.1:{port}"
    yield site
    await runner.cleanup()


@pytest.fixture
def context() -> ToolContext:
    """A fetch uses nothing of its context."""

    class NoSandbox: ...

    return ToolContext(
        session_id=SessionId("s"),
        principal=PrincipalId("u"),
        call_id=CallId("c"),
        sandbox=cast(Sandbox, NoSandbox()),
    )


async def test_a_page_becomes_readable_text_with_its_links(
    site: PageServer, context: ToolContext
) -> None:
    output = await FetchTool(lambda: EgressPolicy(is_allowed=only_loopback)).run(
        context, {"url": f"{site.address}/page"}
    )
    assert output.text == (
        "A title\n\n# Head\n\nSome bold text & "
        f"[a link]({site.address}/next).\n\n- one\n- two\n\na  b\n c"
    )


@pytest.mark.parametrize(("path", "text"), [("latin", "café"), ("missing", "[HTTP 404]\ngone")])
async def test_charset_and_status_are_respected(
    site: PageServer, context: ToolContext, path: str, text: str
) -> None:
    output = await FetchTool(lambda: EgressPolicy(is_allowed=only_loopback)).run(
        context, {"url": f"{site.address}/{path}"}
    )
    assert output.text == text


async def test_a_long_page_is_read_in_parts_and_a_huge_one_is_truncated(
    site: PageServer, context: ToolContext
) -> None:
    fetch = FetchTool(lambda: EgressPolicy(is_allowed=only_loopback), max_bytes=50_000)
    url = f"{site.address}/huge"
    first = await fetch.run(context, {"url": url})
    assert first.text.endswith("[characters 0 to 20000 of 50000: continue with offset]")
    last = await fetch.run(context, {"url": url, "offset": 40_000})
    assert last.text == "x" * 10_000


@pytest.mark.parametrize(
    ("path", "seconds", "says"),
    [
        ("loop", 20, "more than 5 redirects"),
        ("binary", 20, "image/png, which is no text"),
        ("slow", 0.5, "no answer within"),
    ],
)
async def test_a_page_that_cannot_be_fetched_is_refused(
    site: PageServer, context: ToolContext, path: str, seconds: float, says: str
) -> None:
    with pytest.raises(ToolFailed, match=says):
        await FetchTool(lambda: EgressPolicy(is_allowed=only_loopback), seconds=seconds).run(
            context, {"url": f"{site.address}/{path}"}
        )


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::1]", "[::ffff:127.0.0.1]",
     "0.0.0.0", "0", "169.254.169.254", "10.0.0.1", "192.168.1.1", "[fe80::1]", "[fd00::1]",
     "\uff11\uff12\uff17.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "LOCALHOST", "localhost.",
     "0177.0.0.1", "[::1%25lo]", "user@127.0.0.1"],
)  # fmt: skip
async def test_private_addresses_are_off_limits_however_they_are_spelled(
    site: PageServer, context: ToolContext, host: str
) -> None:
    port = site.address.rpartition(":")[2]
    with pytest.raises(ToolFailed):
        await FetchTool(EgressPolicy, seconds=5).run(context, {"url": f"http://{host}:{port}/page"})
    assert site.requested_paths == []


@pytest.mark.parametrize(
    "to", ["http://127.0.0.2:{port}/page", "http://localhost:{port}/page", "file:///etc/passwd"]
)
async def test_a_redirect_inward_is_not_followed(
    site: PageServer, context: ToolContext, to: str
) -> None:
    """Every hop is judged, not only the first."""
    port = site.address.rpartition(":")[2]

    def first_only(address: IpAddress) -> bool:
        return str(address) == "127.0.0.1" and not site.requested_paths

    url = f"{site.address}/inward?to={to.format(port=port)}"
    with pytest.raises(ToolFailed, match=r"private address|only http"):
        await FetchTool(lambda: EgressPolicy(is_allowed=first_only)).run(context, {"url": url})
    assert site.requested_paths == ["/inward"]


async def test_the_address_judged_is_the_address_connected_to(
    site: PageServer, context: ToolContext
) -> None:
    """DNS rebinding: the name is resolved once, and what was judged is what is used."""
    judged = []

    def remember(address: IpAddress) -> bool:
        judged.append(str(address))
        return str(address) == "127.0.0.1"

    port = site.address.rpartition(":")[2]
    await FetchTool(lambda: EgressPolicy(is_allowed=remember)).run(
        context, {"url": f"http://localhost:{port}/page"}
    )
    # Resolvers differ in whether they read the hosts file for the second of these.
    assert set(judged) <= {"127.0.0.1", "::1"} and "127.0.0.1" in judged


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "/etc/passwd", "http://", "http://[x]/", "http://a:99999/"]
)
async def test_an_invalid_web_address_is_refused(context: ToolContext, url: str) -> None:
    with pytest.raises(ToolFailed):
        await FetchTool(EgressPolicy, seconds=5).run(context, {"url": url})


def test_a_charset_named_by_the_page_is_used_and_an_unknown_one_is_not() -> None:
    page = '<meta charset="iso-8859-1"><p>café'
    assert "café" in decode_page(page.encode("latin-1"), None)
    assert "café" in decode_page("\ufeffcafé".encode(), "nonsense")
    assert "café" in decode_page("café".encode(), "no-such-charset")


def test_broken_html_is_read_as_far_as_it_goes() -> None:
    assert (
        html_to_text("<p>a<div><a href=x>b</a></p></span><script>z", base="http://h/")
        == "a\n[b](http://h/x)"
    )
    assert html_to_text("<" * 1000 + "x") != ""


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<a x='", "</", "<?", "<![x>", "<a href=x>y", "<script>"]
)
def test_a_page_with_only_unclosed_tags_is_parsed_in_linear_time(piece: str) -> None:
    """The parser of the library would look for the end of each through all that follows."""
    assert html_to_text("<p>hello" + piece * 20_000 + "</a>" * 20_000, base="http://h/").startswith(
        "hello"
    )


def test_a_charset_cannot_make_a_page_unreadable() -> None:
    """Half a character is kept by nothing, and two charsets take for ever."""
    assert decode_page(b"hi +2AA-", "utf-7").encode() == b"hi ?"
    long = b"a" * 1000 + b"-" + b"b9" * 300_000
    assert decode_page(long, "punycode") == long.decode()
    assert decode_page(b"hi", "a\x00b") == "hi"
