"""A person at a browser: writes, waits, looks; and whoever watches what the page does."""

import re
from typing import Any
from urllib.parse import urlsplit

from tests.support.gateway_process import GatewayProcess

from holdfast.server.local.control_client import ControlClient

# What a browser itself writes when the gateway is away, which some tests see to.
_AWAY = re.compile(r"Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
_PATIENCE = 30_000

_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


class Visitor:
    """Owns a page, and its browser unless that is shared; keeps a record of what the page should
    not do."""

    def __init__(
        self, context: Any, gateway_process: GatewayProcess, *, shared: bool = False
    ) -> None:
        self.context = context
        self.gateway = gateway_process
        self.page = context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.page.add_init_script(_WATCH)
        self._shared = shared
        self._meter: Any = None
        self._wrongs: list[str] = []
        self.page.on("pageerror", lambda error: self._wrongs.append(f"script: {error}"))
        self.page.on("console", self._said)
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)
        self.page.on("popup", lambda page: self._wrongs.append(f"opened: {page.url}"))

    def looks(self, *, viewport: Any = None, color_scheme: str | None = None) -> None:
        """At a screen of this size, in this theme, from now on."""
        if viewport is not None:
            self.page.set_viewport_size(viewport)
        if color_scheme is not None:
            self.page.emulate_media(color_scheme=color_scheme)

    def arrive(self, *, login: bool) -> None:
        self.page.goto(self.link() if login else self.gateway.address)
        self.page.locator(".composer, .login").wait_for()

    def link(self) -> str:
        return str(ControlClient(self.gateway.paths).post("/login")["link"])

    @property
    def box(self) -> Any:
        return self.page.get_by_label("Message", exact=True)

    @property
    def replies(self) -> Any:
        """What Holdfast has said for good: without the reply that is still streaming."""
        return self.page.locator(".reply:not(.live)")

    @property
    def said(self) -> Any:
        """What people said and is in the transcript."""
        return self.page.locator(".said:not(.waiting)")

    @property
    def waiting(self) -> Any:
        return self.page.locator(".said.waiting")

    def say(self, text: str) -> None:
        self.box.fill(text)
        self.box.press("Enter")

    def until_idle(self) -> None:
        self.page.locator(".stop").wait_for(state="hidden")
        self.page.locator(".reply.live").wait_for(state="hidden")
        self.waiting.first.wait_for(state="hidden")

    def ask(self, text: str) -> None:
        """Say it and wait until its turn is over and the page shows all of it.

        The gateway is asked whether it is: a page that has not heard of the turn yet looks
        just like one whose turn is over.
        """
        before = self.said.count()
        self.say(text)
        self.said.nth(before).wait_for()
        path = f"/api/v1/sessions/{self.page.url.rpartition('/')[2]}?limit=1"
        while (detail := self.fetch("GET", path).json())["session"]["state"] != "idle":
            self.page.wait_for_timeout(30)
        self.page.locator(f"[data-seq='{detail['records'][-1]['seq']}']").wait_for()
        self.until_idle()

    def worked(self) -> float:
        """Seconds of a processor that the page has taken since this was first asked: what is drawn
        costs that much, whatever else the machine does."""
        if self._meter is None:
            self._meter = self.context.new_cdp_session(self.page)
            self._meter.send("Performance.enable")  # it counts from here
        told = self._meter.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in told if each["name"] == "ThreadTime"))

    def new_chat(self) -> None:
        self.page.get_by_role("button", name="New chat").first.click()
        self.page.locator(".welcome").wait_for()

    def open(self, session_id: str) -> None:
        self.page.goto(f"{self.gateway.address}/#/chat/{session_id}")

    def fetch(self, method: str, path: str, **options: Any) -> Any:
        """Ask the API as a program does, past the page."""
        answer = self.context.request.fetch(
            self.gateway.address + path, method=method, headers=self.gateway.auth, **options
        )
        assert answer.ok, answer.text()
        return answer

    def leave(self) -> list[str]:
        """Close the browser; what went wrong while it was open."""
        violations = self.page.evaluate("localStorage.clear() ?? window.violations")
        self.page.close()
        if not self._shared:
            self.context.close()
        return self._wrongs + violations

    def _said(self, message: Any) -> None:
        if message.type == "error" and not _AWAY.search(message.text):
            self._wrongs.append(f"console: {message.text}")

    def _asked(self, dialog: Any) -> None:
        self._wrongs.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Any) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("data", "blob"):
            return
        if f"{url.scheme}://{url.netloc}" != self.gateway.address:
            self._wrongs.append(f"request: {request.url}")
