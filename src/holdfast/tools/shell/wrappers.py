"""Wrappers: commands whose operands are another command."""

from collections.abc import Iterator

import msgspec

from holdfast.tools.shell.inner import Nested, NestedCommand, NestedScript
from holdfast.tools.shell.options import parse_options
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose operands are another command."""

    valued: str = ""  # its short options that take a value
    valued_longs: tuple[str, ...] = ()
    skips: int = 0  # operands of its own that come first
    subcommand: str = ""  # the sub-command that makes it one
    script_option: str = ""  # the short option whose value is a script


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
    "flock": Wrapper(valued="wEc", valued_longs=("wait", "timeout"), skips=1, script_option="c"),
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
    "poetry": Wrapper(subcommand="run"), "pipenv": Wrapper(subcommand="run"), "pdm": Wrapper(subcommand="run"),
    "uv": Wrapper(subcommand="run", valued="p", valued_longs=("with", "python", "extra", "group")),
    "hatch": Wrapper(subcommand="run"), "rye": Wrapper(subcommand="run"), "bundle": Wrapper(subcommand="exec"),
    "conda": Wrapper(subcommand="run", valued="np"), "mamba": Wrapper(subcommand="run", valued="np"),
    "direnv": Wrapper(subcommand="exec", skips=1), "mise": Wrapper(subcommand="exec"),
    "nix": Wrapper(subcommand="--"),
    "npm": Wrapper(subcommand="exec"), "yarn": Wrapper(subcommand="exec"), "pnpm": Wrapper(subcommand="exec"),
    "rbenv": Wrapper(subcommand="exec"), "pyenv": Wrapper(subcommand="exec"), "aws-vault": Wrapper(subcommand="--"),
    "dotenv": Wrapper(subcommand="run", valued="f"), "doppler": Wrapper(subcommand="run"),
}

# fmt: on


def unwrap(run: ProgramCall, wrapper: Wrapper) -> Iterator[Nested]:
    if run.program == "command" and run.args[:1] in (("-v",), ("-V",)):
        return
    args = run.args
    if wrapper.subcommand:
        if wrapper.subcommand not in args:
            return
        args = args[args.index(wrapper.subcommand) + 1 :]
    options = parse_options(
        args, valued=wrapper.valued, valued_longs=wrapper.valued_longs, mixed=False
    )
    if wrapper.script_option and (text := options.value(wrapper.script_option)) is not None:
        yield NestedScript(text=text, part=run.excerpt)
    words = list(options.operands)[wrapper.skips :]
    if run.program == "busybox" and words[:1] == ["--"]:
        words = words[1:]
    while words and _is_assignment(words[0]):
        words.pop(0)
    cwd = _chdir_option(run)
    if words:
        yield NestedCommand(words=tuple(words), cwd=cwd)


def _chdir_option(run: ProgramCall) -> str:
    if run.program in ("env", "sudo") and (folder := run.options("uCD").value("CD", "chdir")):
        return run.paths.resolve(folder)
    return ""


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum()


def env(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    split = run.options("uCS", ("unset", "chdir", "split-string"), mixed=False)
    if (text := split.value("S", "split-string")) is not None:
        yield NestedScript(text=" ".join((text, *split.operands)), part=run.excerpt)
    else:
        yield from unwrap(run, WRAPPERS["env"])
