"""The browser tool in a real Chromium, on a web site in the test's process."""

import asyncio
import base64
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from tests.tools.browser.browser_harness import ANN, BEN, BrowserHarness, run, use

from holdfast.core.config.settings import WebSettings
from holdfast.core.ids import CallId, PrincipalId
from holdfast.core.turns.tool import ToolContext, ToolFailed
from holdfast.system.egress import EgressPolicy, HostContact
from holdfast.tools.browser.launcher import find_launcher
from holdfast.tools.browser.pool import BrowserPool, CannotRemoveProfile
from holdfast.tools.browser.session import MAX_DOWNLOAD, BrowserSession
from holdfast.tools.browser.tool import BrowserTool

pytest.importorskip("playwright.async_api", reason="needs playwright: make test")
if shutil.which("chromium") is None:
    pytest.skip("needs chromium: apt install chromium fonts-noto-core", allow_module_level=True)

FRONT = """<!doctype html><title>Shop</title><h1>Tea</h1>
<form action="/buy"><label>Name <input name="name"></label><button>Buy</button></form>
<a href="/about">About us</a> <a href="/file">Price list</a>
<button onclick="alert('closed on Sundays')">Hours</button>
<a href="/about" target="_blank">In a new window</a>"""


class ShopSite:
    """A web shop that sets a cookie and counts the visits of one page."""

    def __init__(self) -> None:
        self.visits = 0
        self.sold: list[str] = []
        self.url = ""

    async def front(self, request: web.Request) -> web.Response:
        return web.Response(text=FRONT, content_type="text/html")

    async def buy(self, request: web.Request) -> web.Response:
        self.sold.append(request.query["name"])
        response = web.Response(
            text=f"<title>Sold</title><p>Sold to {request.query['name']}</p>",
            content_type="text/html",
        )
        response.set_cookie("customer", request.query["name"])
        return response

    async def leave(self, request: web.Request) -> web.Response:
        """A form that leads to the same server under another name."""
        other = str(request.url.with_host("localhost").with_path("/buy"))
        page = (
            f'<title>L</title><form action="{other}"><input name="name"><button>Go</button></form>'
        )
        return web.Response(text=page, content_type="text/html")

    async def about(self, request: web.Request) -> web.Response:
        self.visits += 1
        name = request.cookies.get("customer", "a visitor")
        page = f"<title>About</title><p>Hello, {name}</p><script>visit = 1</script>"
        return web.Response(text=page, content_type="text/html")

    async def file(self, request: web.Request) -> web.Response:
        headers = {"Content-Disposition": 'attachment; filename="prices.csv"'}
        return web.Response(body=b"tea,3\n", headers=headers)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["ShopSite"]:
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self.front),
                web.get("/buy", self.buy),
                web.get("/about", self.about),
                web.get("/leave", self.leave),
                web.get("/file", self.file),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
async def site() -> AsyncIterator[ShopSite]:
    async with ShopSite().open() as site:
        yield site


@pytest.fixture
def harness(tmp_path: Path) -> BrowserHarness:
    return BrowserHarness(tmp_path)


@pytest.fixture
async def browsers(harness: BrowserHarness) -> AsyncIterator[BrowserPool]:
    async with harness.browsers() as browsers:
        yield browsers


def element_ref(tree: str, name: str) -> str:
    line = next(line for line in tree.splitlines() if name in line)
    return line.partition("[ref=")[2].partition("]")[0]


async def test_a_page_is_read_and_used_by_its_refs(browsers: BrowserPool, site: ShopSite) -> None:
    """Open, read as an accessibility tree, type, click."""
    tree = await use(browsers, action="open", url=site.url)
    assert 'heading "Tea"' in tree
    await use(browsers, action="type", ref=element_ref(tree, 'textbox "Name"'), text="Ann")
    sold = await use(browsers, action="click", ref=element_ref(tree, 'button "Buy"'))
    assert "Sold to Ann" in sold
    assert "Tea" in await use(browsers, action="back")


async def test_a_form_does_not_lead_to_a_host_that_the_call_may_not_contact(
    browsers: BrowserPool, site: ShopSite
) -> None:
    """In a conversation with external content, a page could send what the agent typed elsewhere."""

    async def may_contact(host: str) -> bool:
        return host == "127.0.0.1"

    context = ToolContext(
        session_id=ANN,
        principal=PrincipalId("p"),
        call_id=CallId("c"),
        sandbox=None,  # type: ignore[arg-type]  # this tool does not use it
        may_contact=may_contact,
    )
    tool = BrowserTool(browsers, limit=40)
    opened = await tool.run(context, {"action": "open", "url": f"{site.url}/leave"})
    assert opened.sources == ("web page 127.0.0.1",)
    typed = {"action": "type", "ref": element_ref(opened.text, "textbox"), "text": "secret"}
    await tool.run(context, typed)
    click = {"action": "click", "ref": element_ref(opened.text, 'button "Go"')}
    with suppress(ToolFailed):
        await tool.run(context, click)
    assert site.sold == []
    # Without the guard, the same page leads there.
    opened_again = await use(browsers, action="open", url=f"{site.url}/leave")
    await use(browsers, action="click", ref=element_ref(opened_again, 'button "Go"'))
    assert site.sold == [""]


async def test_dialogs_downloads_and_new_pages_are_reported(
    browsers: BrowserPool, site: ShopSite, harness: BrowserHarness
) -> None:
    """A dialog is answered and reported, a download is in the workspace, a pop-up is a tab."""
    tree = await use(browsers, action="open", url=site.url)
    hours = await use(browsers, action="click", ref=element_ref(tree, "Hours"))
    assert "closed on Sundays" in hours
    notices = await use(browsers, action="click", ref=element_ref(tree, "Price list"))
    async with asyncio.timeout(20):  # downloads and new tabs arrive later
        while "prices.csv" not in notices:
            notices = await use(browsers, action="read")
        assert harness.files["prices.csv"] == b"tea,3\n"
        opened = await use(browsers, action="click", ref=element_ref(tree, "In a new window"))
        while "tab 2" not in opened:
            opened = await use(browsers, action="read")
    assert "Tea" in await use(browsers, action="tab", tab=1)


async def test_a_screenshot_is_seen_by_the_model_and_is_in_the_workspace(
    browsers: BrowserPool, site: ShopSite, harness: BrowserHarness
) -> None:
    await use(browsers, action="open", url=site.url)
    shown = await run(browsers, action="screenshot")
    assert "screenshot.jpg" in shown.text
    assert harness.files["screenshot.jpg"].startswith(b"\xff\xd8\xff")
    assert base64.b64decode(shown.images[0].data or "") == harness.files["screenshot.jpg"]


async def test_files_that_a_subagent_saves_are_in_the_shared_workspace(
    browsers: BrowserPool, site: ShopSite, harness: BrowserHarness
) -> None:
    context = ToolContext(
        session_id=BEN,
        principal=PrincipalId("p"),
        call_id=CallId("c"),
        sandbox=None,  # type: ignore[arg-type]  # this tool has no use for it
        workspace=ANN,
    )
    tool = BrowserTool(browsers, limit=40)
    await tool.run(context, {"action": "open", "url": site.url})
    await tool.run(context, {"action": "screenshot"})
    assert harness.owners == {"screenshot.jpg": ANN}


async def test_cookies_and_open_addresses_survive_the_browser(
    harness: BrowserHarness, site: ShopSite
) -> None:
    """J2: the profile and the open addresses are there for the next process."""
    async with harness.browsers() as first:
        tree = await use(first, action="open", url=site.url)
        await use(
            first, action="type", ref=element_ref(tree, 'textbox "Name"'), text="Ann", submit=True
        )
        await use(first, action="open", url=f"{site.url}/about")
    async with harness.browsers() as second:
        assert "Hello, Ann" in await use(second, action="read")


async def test_cookies_and_open_addresses_survive_a_kill(
    harness: BrowserHarness, site: ShopSite
) -> None:
    """J2: chromium writes cookies down late; what an act had said is kept all the same."""
    async with harness.browsers() as browsers:
        tree = await use(browsers, action="open", url=f"{site.url}/buy?name=Ben")
        assert "Sold to Ben" in tree
        pids = _chromiums(harness.home)
        assert pids
        for pid in pids:
            with suppress(ProcessLookupError):  # killed with another of them
                os.kill(pid, signal.SIGKILL)
        with suppress(ToolFailed):  # unless the kill was noticed before
            await use(browsers, action="read")
        assert "Sold to Ben" in await use(browsers, action="read")
        assert "Hello, Ben" in await use(browsers, action="open", url=f"{site.url}/about")


OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from tests.tools.browser.browser_harness import BrowserHarness, use
async def main():
    async with BrowserHarness(Path(sys.argv[1])).browsers() as browsers:
        await use(browsers, action="open", url=sys.argv[2] + "/buy?name=Cem")
        print("open", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_gateway_that_is_killed_leaves_no_browser_and_loses_no_tab(
    harness: BrowserHarness, site: ShopSite
) -> None:
    """J2: the browser process ends with the gateway; its open tabs are restored."""
    command = [sys.executable, "-c", OTHER_PROCESS, str(harness.home), site.url]
    other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert other.stdout is not None
    assert await other.stdout.readline() == b"open\n"
    other.kill()
    await other.communicate()
    while _chromiums(harness.home):
        await asyncio.sleep(0.05)
    async with harness.browsers() as browsers:
        assert "Sold to Cem" in await use(browsers, action="read")


async def test_each_session_has_a_profile_of_its_own(browsers: BrowserPool, site: ShopSite) -> None:
    await use(browsers, action="open", url=f"{site.url}/buy?name=Ann")
    assert "a visitor" in await use(browsers, BEN, action="open", url=f"{site.url}/about")
    assert "Hello, Ann" in await use(browsers, action="open", url=f"{site.url}/about")


async def test_the_end_of_a_session_leaves_no_process(
    browsers: BrowserPool, site: ShopSite
) -> None:
    """A11: `close()` closes the browser too, and may be called twice."""
    await use(browsers, action="open", url=site.url)
    await browsers.end_session(ANN)
    await browsers.end_session(ANN)
    assert len(browsers) == 0
    assert _chromiums(browsers._profiles.parent) == []


async def test_a_deleted_session_has_no_profile(browsers: BrowserPool, site: ShopSite) -> None:
    await use(browsers, action="open", url=site.url)
    profile = browsers._profiles / ANN
    assert profile.stat().st_mode & 0o777 == 0o700
    await browsers.forget(ANN)
    assert not profile.exists()


async def test_a_session_that_ends_while_its_browser_starts_leaves_none(
    browsers: BrowserPool, site: ShopSite
) -> None:
    """A11: the task that opened the browser closes it, since its session has ended."""
    opening = asyncio.create_task(use(browsers, action="open", url=site.url))
    while ANN not in browsers._slots:
        await asyncio.sleep(0)
    await browsers.forget(ANN)
    with suppress(ToolFailed):
        await opening
    assert _chromiums(browsers._profiles.parent) == []


async def test_a_call_that_is_cancelled_while_its_browser_starts_leaves_none(
    browsers: BrowserPool, site: ShopSite
) -> None:
    await use(browsers, BEN, action="open", url=site.url)  # starts what all browsers share
    opening = asyncio.create_task(use(browsers, action="open", url=site.url))
    while not (browsers._profiles / ANN / "start").exists():
        await asyncio.sleep(0.001)
    opening.cancel()
    await asyncio.wait([opening])
    await browsers.end_session(ANN)
    await browsers.end_session(BEN)
    assert _chromiums(browsers._profiles.parent) == []


async def test_a_page_that_closes_itself_leaves_no_second_browser(
    browsers: BrowserPool, site: ShopSite
) -> None:
    """The browser counts as dead and is ended: two browsers must not share a profile."""
    await use(browsers, action="open", url=site.url)
    session = browsers._slots[ANN].session
    assert session is not None and session.active is not None
    clicking = asyncio.create_task(use(browsers, action="click", ref="e999"))
    await asyncio.wait([clicking], timeout=0.3)
    await session.active.close()
    with pytest.raises(ToolFailed, match="died"):
        await clicking
    assert _chromiums(browsers._profiles.parent) == []
    assert "Tea" in await use(browsers, action="read")


async def test_a_profile_that_cannot_be_deleted_is_reported(browsers: BrowserPool) -> None:
    """A profile that still exists is not reported as removed."""
    browsers._profiles.mkdir()
    (browsers._profiles / ANN).write_text("in the way")
    with pytest.raises(CannotRemoveProfile, match="could not be removed"):
        await browsers.forget(ANN)


async def test_the_sandboxed_browser_cannot_write_what_the_gateway_runs_or_follows(
    tmp_path: Path,
) -> None:
    """The start script and the list of tabs are outside what a compromised browser can write."""
    launcher = await find_launcher("/bin/sh")
    if launcher.bwrap is None:
        pytest.skip("bubblewrap does not work here")
    profile = tmp_path / "s"
    for folder in ("profile", "downloads"):
        (profile / folder).mkdir(parents=True)
    (profile / "window.json").write_text("{}")
    start = launcher.write_script(profile)
    before = start.read_text()
    tries = "echo x > {0}/start; echo x > {0}/window.json; ln -s /etc/passwd {0}/window.new"
    tries += "; mv {0}/profile {0}/other; touch {0}/profile/mine {0}/downloads/mine ~/home"
    inside = await asyncio.create_subprocess_exec(
        start, "-c", tries.format(profile), stderr=asyncio.subprocess.DEVNULL
    )
    await inside.wait()
    assert start.read_text() == before
    assert (profile / "window.json").read_text() == "{}"
    assert sorted(path.name for path in profile.iterdir()) == [
        *("downloads", "profile", "start", "window.json")
    ]
    assert (profile / "downloads" / "mine").exists()
    assert (profile / "profile" / "home").exists()


class FakeDownload:
    """A download as the sandboxed browser leaves it on the disk."""

    def __init__(self, file: Path) -> None:
        self.suggested_filename = "download"
        self._file = file

    async def path(self) -> Path:
        return self._file

    async def delete(self) -> None:
        self._file.unlink()


class FakeBrowserContext:
    """A browser context that opens nothing."""

    def on(self, event: str, handler: object) -> None:
        return


async def _save_download(file: Path, files: dict[str, bytes], state_file: Path) -> list[str]:
    """Save a download into `files`; the notices about it."""

    async def save_file(name: str, data: bytes) -> str:
        files[name] = data
        return name

    session = BrowserSession(FakeBrowserContext(), state_file=state_file, save_file=save_file)  # type: ignore[arg-type]  # it needs only `on`
    session._on_download(FakeDownload(file))  # type: ignore[arg-type]  # likewise
    await session.finish_downloads()
    return session.take_notices()


async def test_a_download_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        assert "could not be saved" in (await _save_download(tmp_path / name, files, tmp_path))[0]
    assert files == {}


async def test_a_download_that_is_too_large_is_not_saved(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    with (tmp_path / "large").open("wb") as large:
        large.truncate(MAX_DOWNLOAD + 1)
    assert "larger than" in (await _save_download(tmp_path / "large", files, tmp_path))[0]
    assert files == {}
    assert not (tmp_path / "large").exists()


async def test_an_idle_browser_closes_and_comes_back(
    harness: BrowserHarness, site: ShopSite
) -> None:
    async with harness.browsers(idle_timeout=0.2) as browsers:
        await use(browsers, action="open", url=f"{site.url}/about")
        while len(browsers):
            await asyncio.sleep(0.05)
        assert "About" in await use(browsers, action="read")


async def test_at_the_limit_the_least_recently_used_browser_closes(
    harness: BrowserHarness, site: ShopSite
) -> None:
    async with harness.browsers(max_browsers=1) as browsers:
        await use(browsers, action="open", url=site.url)
        await use(browsers, BEN, action="open", url=site.url)
        assert len(browsers) == 1
        assert "Tea" in await use(browsers, action="read")


async def test_private_addresses_are_off_limits_however_they_are_reached(
    harness: BrowserHarness, site: ShopSite
) -> None:
    """Safe by default: also through the requests of a page, and by a name of this machine."""
    async with harness.browsers(allow_private=False) as browsers:
        port = site.url.rpartition(":")[2]
        for address in (site.url, f"http://localhost:{port}/about", f"http://[::1]:{port}/"):
            assert "private address" in await use(browsers, action="open", url=address)
    assert site.visits == 0


async def test_the_rules_of_web_apply_and_the_hosts_of_a_session_are_recorded(
    harness: BrowserHarness, site: ShopSite
) -> None:
    """Also to the redirects and the requests of a page."""
    contacts: list[HostContact] = []

    async def record(contact: HostContact) -> None:
        contacts.append(contact)

    harness.policy = EgressPolicy(web=lambda: WebSettings(deny=("localhost",)), record=record)
    port = site.url.rpartition(":")[2]
    async with harness.browsers() as browsers:
        await use(browsers, action="open", url=site.url)
        denied = await use(browsers, BEN, action="open", url=f"http://localhost:{port}/about")
    assert "web.deny" in denied and site.visits == 0
    # Chromium contacts its vendor on its own.
    tried = {"127.0.0.1", "localhost"}
    found = [
        (each.session_id, each.host, bool(each.refused)) for each in contacts if each.host in tried
    ]
    assert found == [(ANN, "127.0.0.1", False), (BEN, "localhost", True)]


@pytest.mark.parametrize("address", ["file:///etc/passwd", "chrome://version", "javascript://x"])
async def test_other_schemes_are_refused(browsers: BrowserPool, address: str) -> None:
    with pytest.raises(ToolFailed, match="only http"):
        await use(browsers, action="open", url=address)


async def test_two_calls_of_one_session_run_one_after_the_other(
    browsers: BrowserPool, site: ShopSite
) -> None:
    pages = await asyncio.gather(
        use(browsers, action="open", url=site.url),
        use(browsers, action="open", url=f"{site.url}/about"),
    )
    assert ["Tea" in pages[0], "Hello" in pages[1]] == [True, True]
    assert len(browsers) == 1


def _chromiums(home: Path) -> list[int]:
    """Processes that were started with a profile of this home."""
    mark, found = f"--user-data-dir={home}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
