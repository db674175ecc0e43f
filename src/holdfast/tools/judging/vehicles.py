"""Vehicles: commands that carry another one, and what it is."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import msgspec

from holdfast.tools.judging.inner import Argv, Code, Inner, Script
from holdfast.tools.judging.interpreters import INTERPRETERS, SHELLS, code_of, script_of
from holdfast.tools.judging.marks import UNKNOWN, bare
from holdfast.tools.judging.options import read_options
from holdfast.tools.judging.outputs import name_of_find, roots_of_find
from holdfast.tools.judging.run import Run
from holdfast.tools.judging.shell import Shell

ELSEWHERE = "/elsewhere"  # where commands on another machine stand
MOST_WORDS = 64  # that xargs is followed with


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
_SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "su": ("c", ("command", "session-command")), "runuser": ("c", ("command",)),
    "sg": ("c", ()), "newgrp": ("c", ()), "script": ("c", ("command",)),
    "nix-shell": ("", ("run", "command")), "nodemon": ("x", ("exec",)),
    "tar": ("I", ("to-command", "use-compress-program", "checkpoint-action")),
    "flock": ("c", ("command",)), "rsync": ("e", ("rsh",)), "vim": ("c", ()), "vi": ("c", ()),
    "nvim": ("c", ()), "ex": ("c", ()), "sqlite3": ("", ()), "expect": ("c", ()),
}
_OF_CONTAINERS = (
    "env", "name", "volume", "workdir", "user", "network", "entrypoint", "mount", "publish",
    "env-file", "platform", "memory", "cpus", "label", "hostname", "index", "namespace",
)
# fmt: on


def inside(run: Run, shell: Shell) -> Iterable[Inner]:
    """The commands, scripts and code that this one runs, as far as it shows them."""
    if run.program in SHELLS:
        return script_of(run, shell)
    if run.program in _OWN:
        return _OWN[run.program](run, shell)
    if run.program in WRAPPERS:
        return _unwrapped(run, WRAPPERS[run.program])
    if run.program in _SCRIPTS:
        return _scripts(run, *_SCRIPTS[run.program])
    name = run.program.rstrip("0123456789.") or run.program
    if name in INTERPRETERS:
        return code_of(run, shell, INTERPRETERS[name])
    return _file(run, shell)


def _unwrapped(run: Run, wrapper: Wrapper) -> Iterator[Inner]:
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
    yield Argv(words=tuple(words), cwd=cwd)


def _chosen_folder(run: Run) -> str:
    if run.program in ("env", "sudo") and (folder := run.options("uCD").value("CD", "chdir")):
        return run.place.resolve(folder)
    return ""


def _assigns(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum()


def _env(run: Run, shell: Shell) -> Iterator[Inner]:
    split = run.options("uCS", ("unset", "chdir", "split-string"), mixed=False)
    if (text := split.value("S", "split-string")) is not None:
        yield Script(text=" ".join((text, *split.operands)), part=run.said)
    else:
        yield from _unwrapped(run, WRAPPERS["env"])


def _eval(run: Run, shell: Shell) -> Iterator[Inner]:
    text = " ".join(run.args)
    yield Script(text=text, part=run.said, arguments=shell.arguments, same_shell=True, given=True)


def _source(run: Run, shell: Shell) -> Iterator[Inner]:
    if run.args:
        held = shell.files.get(run.place.resolve(run.args[0]))
        if held is not None:
            yield Script(text=held, part=run.said, same_shell=True)


def _trap(run: Run, shell: Shell) -> Iterator[Inner]:
    words = [word for word in run.args if word not in ("--", "-", "-p", "-l")]
    if words:
        yield Script(text=words[0], part=run.said)


def _alias(run: Run, shell: Shell) -> Iterator[Inner]:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals and text.split()[:1] != [name]:
            yield Script(text=text, part=run.said)
        elif equals:
            yield Argv(words=tuple(text.split()))


def _file(run: Run, shell: Shell) -> Iterator[Inner]:
    """A file that this very command wrote or fetched, run by its path."""
    if "/" in run.called:
        held = shell.files.get(run.place.resolve(run.called))
        if held is not None:
            yield Script(text=held, part=run.said, arguments=run.args)


def _xargs(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options(
        "ILnPsdEa", ("replace", "max-args", "max-procs", "delimiter"), mixed=False
    )
    words = options.operands or ("echo",)
    given = tuple(run.stdin.split()[:MOST_WORDS]) or (UNKNOWN,)
    place = options.value("I") or ("{}" if options.has("i", "replace") else None)
    if place:
        for one in given:
            yield Argv(words=tuple(word.replace(place, one) for word in words))
    else:
        yield Argv(words=(*words, *given))


def _parallel(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("jNnS", ("jobs", "max-args"), mixed=False)
    words = list(options.operands)
    at = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    given = words[at + 1 :] or run.stdin.split()[:MOST_WORDS] or [UNKNOWN]
    text = " ".join(words[:at])
    for one in given:
        script = text.replace("{}", one) if "{}" in text else f"{text} {one}"
        yield Script(text=script, part=run.said)


def _find(run: Run, shell: Shell) -> Iterator[Inner]:
    roots = roots_of_find(run.args) or ["."]
    name = name_of_find(run.args)
    for at, word in enumerate(run.args):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = run.args[at + 1 :]
            end = next((i for i, part in enumerate(rest) if part in (";", "+")), len(rest))
            for root in roots:
                found = f"{root.rstrip('/')}/{name}"
                yield Argv(words=tuple(part.replace("{}", found) for part in rest[:end]))


def _ssh(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("bcDEeFIiJLlmOopQRSWw", mixed=False)
    # Options may also stand after the host.
    after = read_options(options.operands[1:], valued="bcDEeFIiJLlmOopQRSWw", mixed=False)
    text = " ".join(after.operands)
    if text or bare(run.stdin).strip():
        yield Script(text=text or run.stdin, part=run.said, cwd=ELSEWHERE)


def _container(run: Run, shell: Shell) -> Iterator[Inner]:
    words = [word for word in run.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), None)
    if verb is None:
        return
    rest = words[words.index(verb) + 1 :]
    if "--" in rest:
        yield Argv(words=tuple(rest[rest.index("--") + 1 :]), cwd=ELSEWHERE)
        return
    options = read_options(rest, valued="evpwulhmcn", valued_longs=_OF_CONTAINERS, mixed=False)
    # In a container's own disk a command is as well kept as in ours; what it mounts is another
    # rule's affair.
    yield Argv(words=options.operands[1:])


def _at(run: Run, shell: Shell) -> Iterator[Inner]:
    if run.stdin:
        yield Script(text=run.stdin, part=run.said)


def _tmux(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("SLfctsnxye", mixed=True)
    text = [word for word in options.operands if " " in word]
    words = options.operands[1:] if run.program == "tmux" else options.operands
    for script in text or [" ".join(words)]:
        yield Script(text=script, part=run.said)


def _git(run: Run, shell: Shell) -> Iterator[Inner]:
    for setting, value in pairwise(run.args):
        if setting == "-c" and "=!" in value:
            yield Script(text=value.partition("=!")[2], part=run.said)
        if setting.startswith("alias.") and value.startswith("!"):
            yield Script(text=value[1:], part=run.said)
        if setting in ("foreach", "--exec", "-x", "--tree-filter", "--index-filter", "run"):
            yield Script(text=value, part=run.said)


def _awk(run: Run, shell: Shell) -> Iterator[Inner]:
    operands = run.options("Ffv").operands
    if operands:
        yield Code(text=operands[0], part=run.said)


def _sed(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("efl", ("expression",))
    scripts = [value for name, value in options.values if name == "e"] or options.operands[:1]
    for text in scripts:
        head = text.lstrip("0123456789$,/")
        if head.startswith("e "):
            yield Script(text=head[2:], part=run.said)
        elif text.startswith("s") and len(text) > 2 and "e" in text.rpartition(text[1])[2]:
            parts = text.split(text[1])
            yield Script(text=parts[2] if len(parts) > 2 else UNKNOWN, part=run.said)


def _joined(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("nwrmpPsSi", ("interval", "warmup", "runs", "prepare"), mixed=False)
    if run.program == "watch":
        yield Script(text=" ".join(options.operands), part=run.said)
        return
    for text in options.operands:
        yield Script(text=text, part=run.said)


def _scripts(run: Run, short: str, longs: tuple[str, ...]) -> Iterator[Inner]:
    options = run.options(short, longs)
    values = [value for name, value in options.values if name in short]
    values += [value for name, value in options.longs if name in longs]
    for text in values:
        yield Script(text=text.removeprefix("exec=").lstrip(":!"), part=run.said)


_OWN: dict[str, Callable[[Run, Shell], Iterator[Inner]]] = {
    "env": _env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "xargs": _xargs,
    "parallel": _parallel,
    "find": _find,
    "ssh": _ssh,
    "docker": _container,
    "podman": _container,
    "nerdctl": _container,
    "docker-compose": _container,
    "kubectl": _container,
    "oc": _container,
    "at": _at,
    "batch": _at,
    "tmux": _tmux,
    "screen": _tmux,
    "git": _git,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "sed": _sed,
    "gsed": _sed,
    "watch": _joined,
    "hyperfine": _joined,
    "concurrently": _joined,
}
