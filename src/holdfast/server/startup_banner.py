"""The text that `holdfast run` prints when the gateway is ready."""

import shlex
import sys
from pathlib import Path
from shutil import which

from holdfast import __version__
from holdfast.core.config.settings import Provider
from holdfast.core.text.translation import _
from holdfast.core.turns.model import ModelChoice


def startup_banner(
    *,
    home: Path,
    address: str,
    configured_port: int,
    link: str,
    model: ModelChoice,
    unsandboxed_reason: str,
    sandbox_remedy: str,
) -> str:
    """Where the gateway listens, and the three ways to talk to it. `unsandboxed_reason`: why
    commands run without a sandbox, or, with a `sandbox_remedy`, not at all; empty if they are
    sandboxed. Without a `link`, it names the
    command that prints one."""
    call, ours = _command_name(), _home_option(home)
    lines = [
        _("Holdfast {version} listens on {address}").format(version=__version__, address=address),
        *_port_note(address, configured_port),
        "",
        *_browser_lines(link or f"{call} link{ours}", once=bool(link)),
        _("In a terminal:"),
        f"  {call} chat{ours}",
        _("From a program:"),
        f"  curl {address}/v1/chat/completions \\",
        f'    -H "Authorization: Bearer $({call} token{ours})" \\',
        '    -H "X-Holdfast-Session: me" \\',
        '    -d \'{"messages": [{"role": "user", "content": "run uname -a"}]}\'',
        "",
        _("Model: {model} ({provider}): {reason}.").format(
            model=model.name, provider=model.provider, reason=model.why.for_person()
        ),
    ]
    if model.provider == Provider.DEMO:
        setup = f"{call} setup{ours}"
        lines.append(
            _("A demo model answers until you set up a model: {command}").format(command=setup)
        )
    if sandbox_remedy:
        lines.append(
            _("No sandbox, so agents have no terminal, processes and files: {reason}.").format(
                reason=_(unsandboxed_reason)
            )
        )
        lines.append(_(sandbox_remedy))
    elif unsandboxed_reason:
        lines.append(
            _("WITHOUT A SANDBOX: commands can do whatever you can do ({reason}).").format(
                reason=_(unsandboxed_reason)
            )
        )
    stop = _("To stop it: {command}").format(command=f"{call} gateway stop{ours}")
    return "\n".join([*lines, _("Ctrl-C stops it.") if link else stop])


def _browser_lines(link: str, *, once: bool) -> list[str]:
    if once:
        return [_("In a browser (this link works once, within ten minutes):"), f"  {link}"]
    return [_("In a browser, with the link that this command prints:"), f"  {link}"]


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
    return [_("(port {port} is in use by another program)").format(port=configured)]
