"""Accessibility checks by axe-core: the serious violations of what a page shows."""

from pathlib import Path
from typing import Any

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}

# Fades and slides are checked in their final state; endless animations keep running.
_FINISH_ANIMATIONS = """() => {
  for (const animation of document.getAnimations()) {
    if (animation.effect.getComputedTiming().iterations !== Infinity) animation.finish();
  }
}"""


def serious_violations(page: Any, theme: str = "light", *, within: str = "html") -> list[str]:
    """The serious violations that axe finds. Of the dark theme, only the contrast is checked:
    everything else is the same in both themes."""
    page.evaluate(AXE)
    page.evaluate(_FINISH_ANIMATIONS)
    rules = ["color-contrast"] if theme == "dark" else None
    script = "([where, only]) => axe.run(where, only ? { runOnly: only } : {})"
    found = page.evaluate(script, [within, rules])
    return [
        f"{violation['id']}: {node['html']}\n{node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def serious_violations_in_both_themes(page: Any) -> list[str]:
    page.emulate_media(color_scheme="light")
    found = serious_violations(page)
    page.emulate_media(color_scheme="dark")
    return [*found, *serious_violations(page, "dark")]
