"""Screenshots of the page: the screens they are taken on, and how one is taken."""

from pathlib import Path
from typing import Any

from tests.server.page.visitor import Visitor

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 1000}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 1000}},
    "phone": {
        "color_scheme": "light",
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}
# For views with little on them.
SHORT_SCREEN: dict[str, Any] = {
    "color_scheme": "light",
    "viewport": {"width": 1280, "height": 640},
}


def take_picture(visitor: Visitor, path: Path) -> None:
    visitor.page.wait_for_timeout(300)  # for what fades in
    visitor.page.screenshot(path=path, animations="disabled")
    assert path.stat().st_size > 10_000
