"""The greeting: what `holdfast run` tells the person who started it."""

import shlex
import sys
from pathlib import Path
from shutil import which

from holdfast import __version__
from holdfast.core.config.settings import Provider
from holdfast.core.turns.model import ModelChoice


def greeting(
    *, home: Path, address: str, wanted_port: int, link: str, model: ModelChoice, unsandboxed: str
) -> str:
    """Where it listens and the three ways to talk to it; `unsandboxed` says why, if it is so.
    Without a `link` it is said how to get one."""
    call, ours = _program(), _home_option(home)
    lines = [
        f"Holdfast {__version__} listens on {address}",
        *_another_port(address, wanted_port),
        "",
        *_browser(link or f"{call} link{ours}", once=bool(link)),
        "In a terminal:",
        f"  {call} chat{ours}",
        "From a program:",
        f"  curl {address}/v1/chat/completions \\",
        f'    -H "Authorization: Bearer $({call} token{ours})" \\',
        '    -H "X-Holdfast-Session: me" \\',
        '    -d \'{"messages": [{"role": "user", "content": "run uname -a"}]}\'',
        "",
        f"Model: {model.name} ({model.provider}): {model.why}.",
    ]
    if model.provider == Provider.DEMO:
        lines.append(f"A demo answers until there is a real one: {call} setup{ours}")
    if unsandboxed:
        lines.append(f"WITHOUT A SANDBOX: commands can do whatever you can ({unsandboxed}).")
    return "\n".join(
        [*lines, "Ctrl-C stops it." if link else f"To stop it: {call} gateway stop{ours}"]
    )


def _browser(link: str, *, once: bool) -> list[str]:
    if once:
        return ["In a browser (this link works once, within ten minutes):", f"  {link}"]
    return ["In a browser, by the link that this prints:", f"  {link}"]


def _program() -> str:
    """How to call this program again: by its path, where the shell does not know its name."""
    if which("holdfast") is not None or Path(sys.argv[0]).name != "holdfast":
        return "holdfast"
    return shlex.quote(sys.argv[0])


def _home_option(home: Path) -> str:
    return "" if home == Path.home() / ".holdfast" else f" --home {shlex.quote(str(home))}"


def _another_port(address: str, wanted: int) -> list[str]:
    if wanted == 0 or address.endswith(f":{wanted}"):
        return []
    return [f"(port {wanted} is in use by another program)"]
