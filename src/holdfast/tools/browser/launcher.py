"""How Chromium is started: its flags, and bubblewrap around it, which lets it write its own
profile only."""

import asyncio
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.system.bubblewrap import bwrap_programs

PROFILE, DOWNLOADS = "profile", "downloads"  # all that a browser may write
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_READABLE = ("/etc/fonts", "/etc/ssl", "/etc/ca-certificates", "/etc/alternatives", "/etc/chromium")
_READABLE_IF_PRESENT = (
    "/etc/chromium.d",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/resolv.conf",
    "/opt",
)
_FLAGS = (
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    # Without these a page's own traffic could go past the proxy.
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


class ChromiumLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """How a browser is started: the program, and whether bubblewrap confines it."""

    chromium: str
    bwrap: str | None  # None: it has only the sandbox it brings along, if that

    @property
    def flags(self) -> tuple[str, ...]:
        # Chromium's own sandbox does not work inside another one, nor for root.
        unsandboxed = self.bwrap is not None or os.geteuid() == 0
        return (*_FLAGS, "--no-sandbox") if unsandboxed else _FLAGS

    def write_script(self, profile: Path) -> Path:
        """A program to start instead of chromium, written for the sandbox of this process."""
        inside = self._sandboxed_command(profile) if self.bwrap else [self.chromium]
        script = profile / "start"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(inside)} "$@"\n', encoding="utf-8")
        script.chmod(0o700)
        return script

    def _sandboxed_command(self, profile: Path) -> list[str]:
        """What lies beside these folders is the gateway's, which runs and reads it."""
        home, downloads = str(profile / PROFILE), str(profile / DOWNLOADS)
        return [
            *_bwrap_arguments(str(self.bwrap)),
            *("--bind", home, home, "--bind", downloads, downloads),
            *("--setenv", "HOME", home, "--chdir", home),
            *("--", self.chromium),
        ]


def find_chromium(named: str = "") -> str | None:
    """The one that was named, else the system's; None: there is none."""
    names: Sequence[str] = (named,) if named else _CHROMIUM_NAMES
    return next(
        (found for name in names if (found := shutil.which(name, path=_search_path()))), None
    )


async def find_launcher(chromium: str) -> ChromiumLauncher:
    """By trying: a bubblewrap that is installed may still be forbidden to work."""
    for program in bwrap_programs():
        if await _bwrap_works(program):
            return ChromiumLauncher(chromium=chromium, bwrap=program)
    return ChromiumLauncher(chromium=chromium, bwrap=None)


async def _bwrap_works(bwrap: str) -> bool:
    trial = await asyncio.create_subprocess_exec(
        *_bwrap_arguments(bwrap),
        *("--", "/usr/bin/true"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await trial.wait() == 0


def _bwrap_arguments(bwrap: str) -> list[str]:
    argv = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--uid", "1000", "--gid", "1000", "--die-with-parent", "--clearenv"]
    argv += ["--setenv", "PATH", SYSTEM_PATH, "--setenv", "LANG", "C.UTF-8"]
    argv += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for name in ("bin", "sbin", "lib", "lib64"):
        argv += ["--symlink", f"usr/{name}", f"/{name}"]
    for name in (*_READABLE, *_READABLE_IF_PRESENT):
        argv += ["--ro-bind-try", name, name]
    return argv


def _search_path() -> str:
    return f"{SYSTEM_PATH}:/snap/bin:/opt/google/chrome"
