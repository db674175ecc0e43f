"""A real browser on a real gateway; what a page must never do fails whichever test saw it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import own_port
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.testing.misbehaving_model.process import ModelProcess

CHROMIUM = "/usr/bin/chromium"
PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="session")
def one_chromium() -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """The browser of all these tests, and the event loop that playwright drives it by."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip("needs chromium: apt install chromium fonts-noto-core")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test")
    with playwright.sync_playwright() as started:
        loop = asyncio.get_running_loop()
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def vendor() -> Iterator[SimulatedVendor]:
    """A pretend chat service, for a file that wants one."""
    with SimulatedVendor() as vendor:
        yield vendor


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the gateway of a file is at home. A file that wants settings or a past there puts
    them in by a fixture of this name."""
    home = tmp_path_factory.mktemp("page") / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture(scope="module")
def chromium(home: Path, one_chromium: tuple[Any, asyncio.AbstractEventLoop]) -> Iterator[Any]:
    """The browser, for a file that needs one: between its calls playwright's loop passes for one
    that runs in this thread, and files without a browser want a loop of their own. So does a past
    that is written into a home, which is why that comes first."""
    browser, loop = one_chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def one_model() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="module")
def model(one_model: ModelProcess) -> ModelProcess:
    """The model, which knows nothing of the file before."""
    one_model.reset()
    return one_model


@pytest.fixture(scope="module")
def gateway(chromium: Any, home: Path, model: ModelProcess) -> Iterator[GatewayProcess]:
    """One gateway for the tests of a file; each has chats of its own."""
    with serving(home, model) as gateway_process:
        yield gateway_process


@pytest.fixture
def demo_gateway(chromium: Any, tmp_path: Path, model: ModelProcess) -> Iterator[GatewayProcess]:
    """A gateway as a newcomer meets it: nothing set up, a demo answers."""
    demo = {"HOLDFAST_MODEL_PROVIDER": "demo", "HOLDFAST_MODEL_NAME": ""}
    with serving(tmp_path / "home", model, HOLDFAST_MODEL_BASE_URL="", **demo) as gateway_process:
        yield gateway_process


@pytest.fixture
def lone_gateway(chromium: Any, tmp_path: Path, model: ModelProcess) -> Iterator[GatewayProcess]:
    """A gateway for a test that kills it. It keeps its port: the page knows no other."""
    with serving(tmp_path / "home", model) as gateway_process:
        yield gateway_process


@contextmanager
def serving(home: Path, model: ModelProcess, **variables: str) -> Iterator[GatewayProcess]:
    """A gateway on a port that is its own for good, for as long as the context is open."""
    gateway_process = GatewayProcess(
        home, model=model, HOLDFAST_GATEWAY_PORT=str(own_port()), **variables
    )
    try:
        yield gateway_process.start()
    finally:
        gateway_process.end()


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Where pictures go: a run of the tests leaves those of the documentation alone."""
    if os.environ.get("HOLDFAST_PICTURES") != "1":
        return tmp_path
    PICTURES.mkdir(parents=True, exist_ok=True)
    return PICTURES


Visit = Callable[..., Visitor]
LOOKS = {"viewport", "color_scheme"}  # what one page of a browser can have apart from the others


@pytest.fixture(scope="module")
def known_browsers(chromium: Any) -> Iterator[dict[str, Any]]:
    """By the gateway's address, browsers that are logged in and have its files: most tests
    need nothing of their own, and a first visit costs a second."""
    contexts: dict[str, Any] = {}
    yield contexts
    for context in contexts.values():
        context.close()


@pytest.fixture
def visit(chromium: Any, known_browsers: dict[str, Any]) -> Iterator[Visit]:
    """Opens a page on a gateway, logged in unless told otherwise, in a browser that others of the
    file use too: only who logs in otherwise, holds a phone, or is `alone` has one of their own.

    Afterwards: no script broke, the content security policy was not violated, no dialog came
    up, and nothing was asked of any other host.
    """
    visitors: list[Visitor] = []

    def open_one(
        gateway_process: GatewayProcess, *, login: bool = True, alone: bool = False, **options: Any
    ) -> Visitor:
        shared = login and not alone and options.keys() <= LOOKS
        context = known_browsers.get(gateway_process.address) if shared else None
        own = chromium.new_context(**({} if shared else options)) if context is None else context
        visitor = Visitor(own, gateway_process, shared=shared)
        visitors.append(visitor)
        visitor.looks(**{name: options[name] for name in LOOKS & options.keys()})
        visitor.arrive(login=login and context is None)
        if shared:
            known_browsers[gateway_process.address] = visitor.context
        return visitor

    yield open_one
    for visitor in visitors:
        wrongs = visitor.leave()
        assert wrongs == []
