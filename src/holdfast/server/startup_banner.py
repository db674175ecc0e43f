"""The text that `holdfast run` prints when the gateway is ready."""

import shlex
import sys
from pathlib import Path
from shutil import which

from holdfast import __version__
from holdfast.core.config.settings import Provider
from holdfast.core.turns.model import ModelChoice


def startup_banner(
    *,
    home: Path,
    address: str,
    configured_port: int,
    link: str,
    model: ModelChoice,
    unsandboxed_reason: str,
) -> str:
    """Where it listens and the three ways to talk to it. `unsandboxed_reason`: why commands run
    without a sandbox; empty if they do not. Without a `link` it says how to get one."""
    call, ours = _command_name(), _home_option(home)
    lines = [
        f"Holdfast {__version__} listens on {address}",
        *_port_note(address, configured_port),
        "",
        *_browser_lines(link or f"{call} link{ours}", once=bool(link)),
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
    if unsandboxed_reason:
        lines.append(f"WITHOUT A SANDBOX: commands can do whatever you can ({unsandboxed_reason}).")
    return "\n".join(
        [*lines, "Ctrl-C stops it." if link else f"To stop it: {call} gateway stop{ours}"]
    )


def _browser_lines(link: str, *, once: bool) -> list[str]:
    if once:
        return ["In a browser (this link works once, within ten minutes):", f"  {link}"]
    return ["In a browser, by the link that this prints:", f"  {link}"]


def _command_name() -> str:
    """How to call this program again: by its path, where the shell does not know its name."""
    if which("holdfast") is not None or Path(sys.argv[0]).name != "holdfast":
        return "holdfast"
    return shlex.quote(sys.argv[0])


def _home_option(home: Path) -> str:
    return "" if home == Path.home() / ".holdfast" else f" --home {shlex.quote(str(home))}"


def _port_note(address: str, configured: int) -> list[str]:
    if configured == 0 or address.endswith(f":{configured}"):
        return []
    return [f"(port {configured} is in use by another program)"]
