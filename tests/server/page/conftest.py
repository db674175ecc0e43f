"""Fixtures for tests of the page in a real browser on a real gateway.

Every visit ends with a check that the page did nothing it must not do.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.browser import CHROMIUM, CHROMIUM_OPTIONS
from tests.server.page.gateways import running_gateway
from tests.server.page.pictures import PICTURES
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.testing.misbehaving_model.process import ModelProcess

# What one page can have apart from the others of its browser context.
PAGE_OPTIONS = {"viewport", "color_scheme"}


@pytest.fixture(scope="session")
def browser_and_loop() -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """The browser of all these tests, and the event loop that playwright drives it with."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip("needs chromium: apt install chromium fonts-noto-core")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test")
    with playwright.sync_playwright() as started:
        loop = asyncio.get_running_loop()
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(CHROMIUM_OPTIONS))
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def vendor() -> Iterator[SimulatedVendor]:
    """A simulated chat service, for the files that need one."""
    with SimulatedVendor() as vendor:
        yield vendor


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the gateway of a file. A file that needs settings or stored rows there adds
    them in a fixture of the same name."""
    home = tmp_path_factory.mktemp("page") / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture(scope="module")
def chromium(home: Path, browser_and_loop: tuple[Any, asyncio.AbstractEventLoop]) -> Iterator[Any]:
    """The browser, for a file that needs one.

    Between its calls, playwright's event loop counts as running in this thread. Files without a
    browser need a loop of their own, and so does a `home` that writes rows to a store: that is
    why `home` comes first.
    """
    browser, loop = browser_and_loop
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def shared_model() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="module")
def model(shared_model: ModelProcess) -> ModelProcess:
    """The model, without scripts or requests of the previous file."""
    shared_model.reset()
    return shared_model


@pytest.fixture(scope="module")
def gateway(chromium: Any, home: Path, model: ModelProcess) -> Iterator[SpawnedGateway]:
    """One gateway for the tests of a file; each test has chats of its own."""
    with running_gateway(home, model) as gateway_process:
        yield gateway_process


@pytest.fixture
def demo_gateway(chromium: Any, tmp_path: Path, model: ModelProcess) -> Iterator[SpawnedGateway]:
    """A gateway right after installation: nothing is set up, and the demo model replies."""
    demo = {"HOLDFAST_MODEL_PROVIDER": "demo", "HOLDFAST_MODEL_NAME": ""}
    with running_gateway(
        tmp_path / "home", model, HOLDFAST_MODEL_BASE_URL="", **demo
    ) as gateway_process:
        yield gateway_process


@pytest.fixture
def restartable_gateway(
    chromium: Any, tmp_path: Path, model: ModelProcess
) -> Iterator[SpawnedGateway]:
    """A gateway for a test that kills it and starts it again on the same port."""
    with running_gateway(tmp_path / "home", model) as gateway_process:
        yield gateway_process


@pytest.fixture
def pictures_directory(tmp_path: Path) -> Path:
    """Where screenshots go: those of the documentation change only with HOLDFAST_PICTURES=1."""
    if os.environ.get("HOLDFAST_PICTURES") != "1":
        return tmp_path
    PICTURES.mkdir(parents=True, exist_ok=True)
    return PICTURES


@pytest.fixture(scope="module")
def logged_in_contexts(chromium: Any) -> Iterator[dict[str, Any]]:
    """Browser contexts that are logged in, by the gateway's address. Most tests share one,
    because a first visit takes a second."""
    contexts: dict[str, Any] = {}
    yield contexts
    for context in contexts.values():
        context.close()


@pytest.fixture
def visit(chromium: Any, logged_in_contexts: dict[str, Any]) -> Iterator[Visit]:
    """Opens a page on a gateway, by default logged in and in the browser context of the file.

    A page that is not logged in, has options of a phone, or is `alone` gets its own context.
    Afterwards: no script failed, the content security policy was not violated, no dialog
    opened, and no other host got a request.
    """
    visitors: list[Visitor] = []

    def open_one(
        gateway: SpawnedGateway, *, login: bool = True, alone: bool = False, **options: Any
    ) -> Visitor:
        shared = login and not alone and options.keys() <= PAGE_OPTIONS
        context = logged_in_contexts.get(gateway.address) if shared else None
        own = chromium.new_context(**({} if shared else options)) if context is None else context
        visitor = Visitor(own, gateway, shared=shared)
        visitors.append(visitor)
        visitor.set_screen(**{name: options[name] for name in PAGE_OPTIONS & options.keys()})
        visitor.load(login=login and context is None)
        if shared:
            logged_in_contexts[gateway.address] = visitor.context
        return visitor

    yield open_one
    for visitor in visitors:
        faults = visitor.close()
        assert faults == []
