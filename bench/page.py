"""The page under load: ten thousand sessions and five thousand steps, measured in a real browser.

`python bench/page.py [--sessions N] [--steps N]` prints a table. It needs chromium and playwright.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from processes import HERE, ServerProcess, running
from subjects import HOLDFAST, free_port, gateway_env, token_of, wait_until_ready

from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths

sys.path.insert(0, str(HERE.parent))  # the generator of a filled home is in tests/

from tests.server.page.browser import CHROMIUM, CHROMIUM_OPTIONS
from tests.server.page.filled_home import LONGEST, fill

IDLE = 20.0  # seconds that an open list is left alone
_LONG = 50.0
_BY = 1500  # pixels a frame: faster than a hand, all rows in view are new ones in each
PRICES = '[prices."scripted"]\ninput = 2.0\noutput = 8.0\n'

_OPEN = """async ([hash, wanted]) => {
  const began = performance.now();
  location.hash = hash;
  while (!document.querySelector(wanted)) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""

# As fast as a hand can, until there is no more: the time between two frames, each.
_SCROLL = """async ([place, by, done]) => {
  const scroller = document.querySelector(place);
  const gaps = [];
  let before = performance.now();
  for (let still = 0; still < 60; ) {
    scroller.scrollTop += by;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - before);
    before = now;
    still = document.querySelector(done) ? 0 : still + 1;
  }
  return gaps;
}"""


@contextmanager
def served(
    directory: Path, *, sessions: int, steps: int
) -> Iterator[tuple[ServerProcess, str, str, Path]]:
    """A gateway whose home has that past: its process, address, token and home."""
    home, port = directory / "home", free_port()
    fill(home, sessions=sessions, steps=steps)
    (home / "holdfast.toml").write_text(PRICES)
    env = gateway_env(home, port=port, model_url="http://127.0.0.1:1/v1")
    began = time.perf_counter()
    with running(
        [HOLDFAST, "run"], log=directory / "gateway.log", env=env, prints_first_line=False
    ) as server:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, server, began=began)
        yield server, url, token_of(env), home


def measure(
    browser: Any, page: Any, *, hash: str, selector: str, scroller: str, by: int, more: str
) -> dict[str, Any]:
    """Opened twice, since the first time compiles the page's code; then scrolled to the end."""
    page.evaluate(_OPEN, [hash, selector])
    page.evaluate("location.hash = '#/restarts'")
    page.locator(selector).first.wait_for(state="detached")
    browser.start_tracing(page=page, categories=["toplevel"])
    opened = page.evaluate(_OPEN, [hash, selector])
    gaps = sorted(page.evaluate(_SCROLL, [scroller, by, more]))
    tasks = sorted(_tasks(json.loads(browser.stop_tracing())["traceEvents"]))
    return {
        "first paint, ms": opened,
        "the longest task, ms of CPU": tasks[-1],
        "tasks of more than 50 ms of CPU": sum(task > _LONG for task in tasks),
        "of so many": len(tasks),
        "between two frames, median, ms": gaps[len(gaps) // 2],
        "heap, MB": page.evaluate("performance.memory.usedJSHeapSize") / 1e6,
        "elements": page.evaluate("document.querySelectorAll('*').length"),
    }


def _tasks(events: list[dict[str, Any]]) -> Iterator[float]:
    """What each task of the page's main thread took of its CPU, in ms: on a machine that has other
    things to do besides, the time that passes says more of those."""
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    for event in events:
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in mains:
            yield event.get("tdur", 0) / 1000


def answers(url: str, token: str, *, sessions: int) -> dict[str, Any]:
    """How long a page of the list takes, the first and the last; the median of nine."""

    def ask(query: str) -> tuple[float, Any]:
        request = Request(f"{url}/api/v1/sessions?summary=true&limit=100{query}")
        request.add_header("Authorization", f"Bearer {token}")
        began = time.perf_counter()
        with urlopen(request) as answer:
            body = answer.read()
        return (time.perf_counter() - began) * 1000, json.loads(body)

    _, found = ask("")
    last = found["sessions"][-1]
    behind = f"&after={last['active_at'] - 30 * (sessions - 300)}~{last['id']}"
    times = {"first": "", "late": behind, "of a platform": "&platform=irc"}
    return {
        f"GET /sessions, {name} page, ms": statistics.median(ask(query)[0] for _ in range(9))
        for name, query in times.items()
    }


def run(directory: Path, *, sessions: int, steps: int) -> dict[str, dict[str, Any]]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - --help works without it

    with (
        served(directory, sessions=sessions, steps=steps) as (server, url, token, home),
        sync_playwright() as playwright,
    ):
        options = [*CHROMIUM_OPTIONS, "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(str(ControlClient(Paths(home)).post("/login")["link"]))
        page.locator(".composer").wait_for()
        row = ".sessions .body [role=row]"
        found = {"the API": answers(url, token, sessions=sessions)}
        found[f"{sessions:,} sessions"] = measure(
            browser,
            page,
            hash="#/sessions",
            selector=row,
            scroller=".board > .scroller",
            by=_BY,
            more=".sessions .more",
        )
        found[f"{sessions:,} sessions"]["rows loaded"] = page.evaluate(
            "document.querySelector('.sessions').getAttribute('aria-rowcount')"
        )
        before = server.cpu_seconds()
        page.wait_for_timeout(IDLE * 1000)
        share = (server.cpu_seconds() - before) / IDLE * 100
        found["an open list"] = {"CPU of the gateway, % of a core": share}
        found[f"{steps:,} steps"] = measure(
            browser,
            page,
            hash=f"#/sessions/{LONGEST}",
            selector=".usage-line span",
            scroller=".transcript .scroller",
            by=-_BY,
            more=".older",
        )
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=5_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = run(Path(directory), sessions=asked.sessions, steps=asked.steps)
    for name, figures in found.items():
        print(name)
        for figure, value in figures.items():
            print(f"  {figure:<40} {value if isinstance(value, str) else round(value, 1)}")


if __name__ == "__main__":
    main()
