"""What the tests of the dashboard share: its views, and the controls that change something."""

from typing import Any

VIEWS = (
    "overview",
    "sessions",
    "turns",
    "approvals",
    "processes",
    "platforms",
    "outbox/state=all",
    "jobs",
    "logs",
    "audit",
    "settings",
    "settings/prices",
    "settings/history",
    "restarts",
)
PRICES = '[prices."scripted"]\ninput = 2.0\noutput = 8.0\n'


def change_controls(page: Any) -> list[str]:
    """The visible controls that would change something."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-changes]')].filter((e) => e.checkVisibility())"
        ".map((e) => e.outerHTML)"
    )
    return found
