"""Wrappers: commands whose operands are another command."""

from collections.abc import Iterator

import msgspec

from holdfast.tools.shell.inner import Argv, Inner, Script
from holdfast.tools.shell.options import read_options
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose operands are another command."""

    valued: str = ""  # its short options that take a value
    valued_longs: tuple[str, ...] = ()
    skips: int = 0  # operands of its own that come first
    word: str = ""  # the sub-command that makes it one
    script: str = ""  # the short option whose value is a script


# fmt: off
WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper(valued="ugpCDhRrtT", valued_longs=("user", "group", "prompt", "chdir", "host")),
    "doas": Wrapper(valued="uC"),
    "pkexec": Wrapper(valued_longs=("user",)),
    "env": Wrapper(valued="uC", valued_longs=("unset", "chdir")),
    "nohup": Wrapper(),
    "timeout": Wrapper(valued="ks", valued_longs=("kill-after", "signal"), skips=1),
    "gtimeout": Wrapper(valued="ks", skips=1),
    "nice": Wrapper(valued="n", valued_longs=("adjustment",)),
    "ionice": Wrapper(valued="cn", valued_longs=("class", "classdata")),
    "chrt": Wrapper(skips=1),
    "taskset": Wrapper(skips=1),
    "stdbuf": Wrapper(valued="ioe", valued_longs=("input", "output", "error")),
    "setsid": Wrapper(), "time": Wrapper(valued="fo"), "command": Wrapper(), "builtin": Wrapper(),
    "exec": Wrapper(valued="a"), "coproc": Wrapper(), "busybox": Wrapper(), "toybox": Wrapper(),
    "strace": Wrapper(valued="oepsPaIbuX"), "ltrace": Wrapper(valued="oepsnlu"),
    "flock": Wrapper(valued="wEc", valued_longs=("wait", "timeout"), skips=1, script="c"),
    "chroot": Wrapper(valued_longs=("userspec", "groups"), skips=1),
    "gosu": Wrapper(skips=1), "su-exec": Wrapper(skips=1), "valgrind": Wrapper(),
    "faketime": Wrapper(skips=1), "dumb-init": Wrapper(), "tini": Wrapper(), "numactl": Wrapper(),
    "unshare": Wrapper(), "nsenter": Wrapper(valued="tSG", valued_longs=("target",)),
    "setpriv": Wrapper(), "fakeroot": Wrapper(), "firejail": Wrapper(), "bwrap": Wrapper(),
    "systemd-run": Wrapper(valued="pupEM", valued_longs=("unit", "property", "slice", "uid")),
    "systemd-inhibit": Wrapper(), "dbus-run-session": Wrapper(), "xvfb-run": Wrapper(valued="snfe"),
    "proxychains": Wrapper(valued="f"), "proxychains4": Wrapper(valued="f"), "torsocks": Wrapper(),
    "caffeinate": Wrapper(valued="tw"), "chronic": Wrapper(), "unbuffer": Wrapper(),
    "rlwrap": Wrapper(), "entr": Wrapper(), "winpty": Wrapper(), "not": Wrapper(),
    "poetry": Wrapper(word="run"), "pipenv": Wrapper(word="run"), "pdm": Wrapper(word="run"),
    "uv": Wrapper(word="run", valued="p", valued_longs=("with", "python", "extra", "group")),
    "hatch": Wrapper(word="run"), "rye": Wrapper(word="run"), "bundle": Wrapper(word="exec"),
    "conda": Wrapper(word="run", valued="np"), "mamba": Wrapper(word="run", valued="np"),
    "direnv": Wrapper(word="exec", skips=1), "mise": Wrapper(word="exec"),
    "nix": Wrapper(word="--"),
    "npm": Wrapper(word="exec"), "yarn": Wrapper(word="exec"), "pnpm": Wrapper(word="exec"),
    "rbenv": Wrapper(word="exec"), "pyenv": Wrapper(word="exec"), "aws-vault": Wrapper(word="--"),
    "dotenv": Wrapper(word="run", valued="f"), "doppler": Wrapper(word="run"),
}

# fmt: on


def unwrapped(run: Run, wrapper: Wrapper) -> Iterator[Inner]:
    if run.program == "command" and run.args[:1] in (("-v",), ("-V",)):
        return
    args = run.args
    if wrapper.word:
        if wrapper.word not in args:
            return
        args = args[args.index(wrapper.word) + 1 :]
    options = read_options(
        args, valued=wrapper.valued, valued_longs=wrapper.valued_longs, mixed=False
    )
    if wrapper.script and (text := options.value(wrapper.script)) is not None:
        yield Script(text=text, part=run.said)
    words = list(options.operands)[wrapper.skips :]
    if run.program == "busybox" and words[:1] == ["--"]:
        words = words[1:]
    while words and _assigns(words[0]):
        words.pop(0)
    cwd = _chosen_folder(run)
    if words:
        yield Argv(words=tuple(words), cwd=cwd)


def _chosen_folder(run: Run) -> str:
    if run.program in ("env", "sudo") and (folder := run.options("uCD").value("CD", "chdir")):
        return run.place.resolve(folder)
    return ""


def _assigns(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum()


def env(run: Run, shell: Shell) -> Iterator[Inner]:
    split = run.options("uCS", ("unset", "chdir", "split-string"), mixed=False)
    if (text := split.value("S", "split-string")) is not None:
        yield Script(text=" ".join((text, *split.operands)), part=run.said)
    else:
        yield from unwrapped(run, WRAPPERS["env"])
