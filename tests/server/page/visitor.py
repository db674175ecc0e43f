"""A page in a browser as a user drives it: sends messages, waits, reads what is shown."""

import re
from typing import Any, Protocol
from urllib.parse import urlsplit

from tests.support.gateway_process import SpawnedGateway

from holdfast.server.local.control_client import ControlClient

# What the browser itself logs while the gateway is down, which some tests bring about.
_CONNECTION_ERRORS = re.compile(r"Failed to load resource|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
_TIMEOUT_MS = 30_000

_RECORD_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


class Visitor:
    """Owns a page, and its browser context unless that is shared. Records what a page must not do:
    script errors, violations of the content security policy, dialogs, requests to other hosts."""

    def __init__(
        self, context: Any, gateway_process: SpawnedGateway, *, shared: bool = False
    ) -> None:
        self.context = context
        self.gateway = gateway_process
        self.page = context.new_page()
        self.page.set_default_timeout(_TIMEOUT_MS)
        self.page.add_init_script(_RECORD_VIOLATIONS)
        self._shared = shared
        self._metrics: Any = None
        self._faults: list[str] = []
        self.page.on("pageerror", lambda error: self._faults.append(f"script: {error}"))
        self.page.on("console", self._on_console)
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)
        self.page.on("popup", lambda page: self._faults.append(f"opened: {page.url}"))

    def set_screen(self, *, viewport: Any = None, color_scheme: str | None = None) -> None:
        """Sets the size of the screen and the theme."""
        if viewport is not None:
            self.page.set_viewport_size(viewport)
        if color_scheme is not None:
            self.page.emulate_media(color_scheme=color_scheme)

    def load(self, *, login: bool) -> None:
        self.page.goto(self.login_link() if login else self.gateway.address)
        self.page.locator(".composer, .login").wait_for()

    def login_link(self) -> str:
        return str(ControlClient(self.gateway.paths).post("/login")["link"])

    @property
    def message_box(self) -> Any:
        return self.page.get_by_label("Message", exact=True)

    @property
    def replies(self) -> Any:
        """The finished replies, without one that is still streaming."""
        return self.page.locator(".reply:not(.live)")

    @property
    def user_messages(self) -> Any:
        """The messages of users that are in the transcript."""
        return self.page.locator(".user-message:not(.waiting)")

    @property
    def waiting_messages(self) -> Any:
        return self.page.locator(".user-message.waiting")

    def user_texts(self) -> list[str]:
        return _stripped(self.user_messages.locator(".message-text"))

    def reply_texts(self) -> list[str]:
        return _stripped(self.replies.locator(".prose"))

    def waiting_texts(self) -> list[str]:
        return _stripped(self.waiting_messages.locator(".message-text"))

    def choose_busy_mode(self, mode: str) -> None:
        """Chooses what the next message does to a running turn: Queue, Steer or Interrupt."""
        self.page.get_by_role("button", name="What sending does").click()
        self.page.get_by_role("menuitemradio", name=mode).click()

    def send(self, text: str) -> None:
        self.message_box.fill(text)
        self.message_box.press("Enter")

    def until_idle(self) -> None:
        self.page.locator(".stop").wait_for(state="hidden")
        self.page.locator(".reply.live").wait_for(state="hidden")
        self.waiting_messages.first.wait_for(state="hidden")

    def send_and_wait(self, text: str) -> None:
        """Sends a message and waits until its turn is over and the page shows all of it.

        The state comes from the gateway: a page that does not know of the turn yet looks
        just like one whose turn is over.
        """
        before = self.user_messages.count()
        self.send(text)
        self.user_messages.nth(before).wait_for()
        path = f"/api/v1/sessions/{self.page.url.rpartition('/')[2]}?limit=1"
        while (detail := self.fetch("GET", path).json())["session"]["state"] != "idle":
            self.page.wait_for_timeout(30)
        self.page.locator(f"[data-seq='{detail['records'][-1]['seq']}']").wait_for()
        self.until_idle()

    def cpu_seconds(self) -> float:
        """The CPU time of the page since the first call, which does not depend on the load of the
        machine."""
        if self._metrics is None:
            self._metrics = self.context.new_cdp_session(self.page)
            self._metrics.send("Performance.enable")  # it counts from here
        metrics = self._metrics.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "ThreadTime"))

    def new_chat(self) -> None:
        self.page.get_by_role("button", name="New chat").first.click()
        self.page.locator(".welcome").wait_for()

    def open_chat(self, session_id: str) -> None:
        self.page.goto(f"{self.gateway.address}/#/chat/{session_id}")

    def fetch(self, method: str, path: str, **options: Any) -> Any:
        """Calls the API directly, without the page."""
        answer = self.context.request.fetch(
            self.gateway.address + path, method=method, headers=self.gateway.auth, **options
        )
        assert answer.ok, answer.text()
        return answer

    def close(self) -> list[str]:
        """Closes the page; returns what it did that it must not do."""
        violations: list[str] = self.page.evaluate("localStorage.clear() ?? window.violations")
        self.page.close()
        if not self._shared:
            self.context.close()
        return self._faults + violations

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and not _CONNECTION_ERRORS.search(message.text):
            self._faults.append(f"console: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self._faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_request(self, request: Any) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("data", "blob"):
            return
        if f"{url.scheme}://{url.netloc}" != self.gateway.address:
            self._faults.append(f"request: {request.url}")


def _stripped(locator: Any) -> list[str]:
    return [str(text).strip() for text in locator.all_inner_texts()]


class Visit(Protocol):
    """Opens a page on a gateway: the type of the fixture `visit`."""

    def __call__(
        self, gateway: SpawnedGateway, *, login: bool = True, alone: bool = False, **options: Any
    ) -> Visitor: ...
