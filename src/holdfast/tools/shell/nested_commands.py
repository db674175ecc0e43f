"""Programs that run another command: wrappers (`sudo`, `env`), `xargs` and `find`, remote and
container exec, and options that execute (`git -c`, `tar`, `awk`)."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import msgspec

from holdfast.tools.shell.environment import exported
from holdfast.tools.shell.escapes import ESCAPES, written_code
from holdfast.tools.shell.interpreters import (
    INTERPRETERS,
    SHELLS,
    STDIN_NAMES,
    interpreter_code,
    shell_script,
)
from holdfast.tools.shell.invocation import (
    Nested,
    NestedCode,
    NestedCommand,
    NestedScript,
    ProgramCall,
    parse_options,
)
from holdfast.tools.shell.markers import UNKNOWN, strip_markers
from holdfast.tools.shell.outputs import find_results
from holdfast.tools.shell.path_effects import EFFECT_PROGRAMS
from holdfast.tools.shell.state import ShellState


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
    "ltrace": Wrapper(valued="oepsnlu"),
    "flock": Wrapper(valued="wEc", valued_longs=("wait", "timeout"), skips=1, script_option="c"),
    "chroot": Wrapper(valued_longs=("userspec", "groups"), skips=1),
    "gosu": Wrapper(skips=1), "su-exec": Wrapper(skips=1), "valgrind": Wrapper(),
    "faketime": Wrapper(skips=1), "dumb-init": Wrapper(), "tini": Wrapper(), "numactl": Wrapper(),
    "unshare": Wrapper(), "nsenter": Wrapper(valued="tSG", valued_longs=("target",)),
    "setpriv": Wrapper(), "fakeroot": Wrapper(), "firejail": Wrapper(), "bwrap": Wrapper(),
    "systemd-run": Wrapper(valued="pupEM", valued_longs=("unit", "property", "slice", "uid")),
    "systemd-inhibit": Wrapper(), "dbus-run-session": Wrapper(), "xvfb-run": Wrapper(valued="snfe"),
    "proxychains": Wrapper(valued="f"), "proxychains4": Wrapper(valued="f"), "torsocks": Wrapper(),
    "caffeinate": Wrapper(valued="tw"), "cpulimit": Wrapper(valued="lpe"),
    "multitime": Wrapper(valued="nrIf"), "aa-exec": Wrapper(valued="p"),
    "chronic": Wrapper(), "unbuffer": Wrapper(),
    "rlwrap": Wrapper(), "entr": Wrapper(), "winpty": Wrapper(), "not": Wrapper(),
    "poetry": Wrapper(subcommand="run"), "pipenv": Wrapper(subcommand="run"),
    "pdm": Wrapper(subcommand="run"),
    "uv": Wrapper(subcommand="run", valued="p", valued_longs=("with", "python", "extra", "group")),
    "hatch": Wrapper(subcommand="run"), "rye": Wrapper(subcommand="run"),
    "bundle": Wrapper(subcommand="exec"), "conda": Wrapper(subcommand="run", valued="np"),
    "mamba": Wrapper(subcommand="run", valued="np"),
    "direnv": Wrapper(subcommand="exec", skips=1), "mise": Wrapper(subcommand="exec"),
    "nix": Wrapper(subcommand="--"),
    "npm": Wrapper(subcommand="exec"), "yarn": Wrapper(subcommand="exec"),
    "pnpm": Wrapper(subcommand="exec"), "rbenv": Wrapper(subcommand="exec"),
    "pyenv": Wrapper(subcommand="exec"), "aws-vault": Wrapper(subcommand="--"),
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
        yield from exported(words.pop(0))
    cwd = _chdir_option(run)
    if words:
        yield NestedCommand(words=tuple(words), cwd=cwd)


def _chdir_option(run: ProgramCall) -> str:
    if run.program in ("env", "sudo") and (folder := run.options("uCD").value("CD", "chdir")):
        return run.paths.resolve(folder)
    return ""


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.removesuffix("%%").replace("_", "a").isalnum()


def env(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    split = run.options("uCS", ("unset", "chdir", "split-string"), mixed=False)
    if (text := split.value("S", "split-string")) is not None:
        yield NestedScript(text=" ".join((text, *split.operands)), part=run.excerpt)
    else:
        yield from unwrap(run, WRAPPERS["env"])


MAX_ARGUMENTS = 64  # that are analysed


def xargs(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options(
        "ILnPsdEa", ("replace", "max-args", "max-procs", "delimiter"), mixed=False
    )
    words = options.operands or ("echo",)
    given = tuple(run.stdin.split()[:MAX_ARGUMENTS]) or (UNKNOWN,)
    placeholder = options.value("I") or ("{}" if options.has("i", "replace") else None)
    if placeholder:
        for one in given:
            yield NestedCommand(words=tuple(word.replace(placeholder, one) for word in words))
    else:
        yield NestedCommand(words=(*words, *given))


def parallel(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("jNnS", ("jobs", "max-args"), mixed=False)
    words = list(options.operands)
    at = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    given = words[at + 1 :] or run.stdin.split()[:MAX_ARGUMENTS] or [UNKNOWN]
    text = " ".join(words[:at])
    for one in given:
        script = text.replace("{}", one) if "{}" in text else f"{text} {one}"
        yield NestedScript(text=script, part=run.excerpt)


def find(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for at, word in enumerate(run.args):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = run.args[at + 1 :]
            end = next((i for i, part in enumerate(rest) if part in (";", "+")), len(rest))
            for found in find_results(run.args):
                yield NestedCommand(words=tuple(part.replace("{}", found) for part in rest[:end]))


REMOTE_CWD = "/elsewhere"  # the working directory of commands on another machine

# fmt: off
_CONTAINER_OPTIONS = (
    "env", "name", "volume", "workdir", "user", "network", "entrypoint", "mount", "publish",
    "env-file", "platform", "memory", "cpus", "label", "hostname", "index", "namespace",
)

# fmt: on


def ssh(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("bcDEeFIiJLlmOopQRSWw", mixed=False)
    for setting in (value for name, value in options.values if name == "o"):
        # These run on this machine.
        key, _, value = setting.replace("=", " ", 1).partition(" ")
        if key.lower() in ("proxycommand", "localcommand", "knownhostscommand"):
            yield NestedScript(text=value, part=run.excerpt)
    # Options may also stand after the host.
    after = parse_options(options.operands[1:], valued="bcDEeFIiJLlmOopQRSWw", mixed=False)
    text = " ".join(after.operands)
    if text or strip_markers(run.stdin).strip():
        yield NestedScript(text=text or run.stdin, part=run.excerpt, cwd=REMOTE_CWD)


def ansible(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("amiefulMBPtT", ("args", "module-name", "inventory", "user"))
    module = options.value("m", "module-name") or "command"
    text = options.value("a", "args")
    if text and module.rpartition(".")[2] in ("command", "shell", "raw", "script"):
        yield NestedScript(text=text, part=run.excerpt, cwd=REMOTE_CWD)


def container_exec(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    words = [word for word in run.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), None)
    if verb is None:
        return
    rest = words[words.index(verb) + 1 :]
    if "--" in rest:
        yield NestedCommand(words=tuple(rest[rest.index("--") + 1 :]), cwd=REMOTE_CWD)
        return
    options = parse_options(rest, valued="evpwulhmcn", valued_longs=_CONTAINER_OPTIONS, mixed=False)
    # On a container's own disk a command does no more harm than in our sandbox; mounts have rules
    # of their own.
    yield NestedCommand(words=options.operands[1:])


# fmt: off
# They print their own output besides that of the commands they run.
ALSO_PRINTING = frozenset((
    "git", "tar", "rsync", "make", "gmake", "psql", "sqlite3", "mysql", "mariadb", "sed", "gsed",
))
_GIT_COMMAND_SETTINGS = frozenset((
    "core.sshcommand", "core.fsmonitor", "core.pager", "core.editor", "core.askpass",
    "diff.external", "sequence.editor", "gpg.program", "core.gitproxy",
))
# fmt: on
_GIT_FOLDER_SETTINGS = frozenset(("core.hookspath", "init.templatedir"))
_GIT_COMMAND_OPTIONS = ("--upload-pack=", "--receive-pack=", "--exec=")
_GIT_TRANSPORT = "ext::"  # an address that is a command
_AWK_PIPES = re.compile(r"\|\s*&?\s*\"([^\"\n]+)\"|\"([^\"\n]+)\"\s*\|\s*&?\s*getline")
_AWK_RUNS_DATA = re.compile(r"\bsystem\(\s*[\w$][^\"'()\n]{0,60}\)")
_SED_ENDS = re.compile(r"[;\n{}]")
_SQL_RUNS = re.compile(
    r"(?:^|\n)\s*(?:\.(?:shell|system)|\\!|system)\s+([^\n]+)|\b(?:to|from)\s+program\s+'([^']+)'",
    re.IGNORECASE,
)


def git(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for option, value in pairwise(run.args):
        yield from _git_option(option, value, run)
    for word in run.args:
        if word.startswith(_GIT_COMMAND_OPTIONS):
            yield NestedScript(text=word.partition("=")[2], part=run.excerpt)
        if word.startswith(_GIT_TRANSPORT):
            yield NestedScript(text=word.removeprefix(_GIT_TRANSPORT), part=run.excerpt)
    if run.args[:2] == ("bisect", "run"):
        yield NestedCommand(words=run.args[2:])
    if "remote" in run.args or "push" in run.args:
        yield from _git_remote(run, shell)


def _git_remote(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """A push to a remote whose address the same script set is one to that address."""
    words = [word for word in run.args if not word.startswith("-")]
    match words:
        case ["remote", "add" | "set-url", name, address, *_]:
            shell.files[f"/remote/{name}"] = address
        case ["config", setting, address, *_] if setting.startswith("remote."):
            shell.files[f"/remote/{setting.split('.')[1]}"] = address
        case ["push", *rest]:
            address = shell.files.get(f"/remote/{rest[0] if rest else 'origin'}", "")
            if address:
                yield NestedCommand(words=("git", "push", address))


def _git_option(option: str, value: str, run: ProgramCall) -> Iterator[Nested]:
    if option in ("-c", "--config"):
        yield from _git_setting(value, run)
    if option in ("-u", "--upload-pack", "--receive-pack") and "/" in value:
        yield NestedScript(text=value, part=run.excerpt)
    if option.startswith("alias.") and value.startswith("!"):
        yield NestedScript(text=value[1:], part=run.excerpt)
    if option in ("foreach", "--exec", "-x", "--tree-filter", "--index-filter"):
        yield NestedScript(text=value, part=run.excerpt)


def _git_setting(setting: str, run: ProgramCall) -> Iterator[Nested]:
    key, _, value = setting.partition("=")
    if key.lower() in _GIT_COMMAND_SETTINGS or value.startswith("!"):
        yield NestedScript(text=value.removeprefix("!"), part=run.excerpt)
    elif key.lower() in _GIT_FOLDER_SETTINGS and "/" in value:
        yield NestedCommand(words=(f"{value}/hook",))


def awk(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    operands = run.options("Ffv").operands
    if not operands:
        return
    text = operands[0]
    yield NestedCode(text=text, part=run.excerpt)
    for match in _AWK_PIPES.finditer(text):
        yield NestedScript(text=match[1] or match[2], part=run.excerpt)
    if _AWK_RUNS_DATA.search(text):
        yield NestedScript(text=UNKNOWN, part=run.excerpt)


def sed(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("efl", ("expression",))
    scripts = [value for name, value in options.values if name == "e"] or options.operands[:1]
    for text in scripts:
        for piece in _SED_ENDS.split(text):
            head = piece.lstrip(" 0123456789$,/!")
            if head.startswith("e "):
                yield NestedScript(text=head[2:], part=run.excerpt)
        if text.startswith("s") and len(text) > 2 and "e" in text.rpartition(text[1])[2]:
            parts = text.split(text[1])
            yield NestedScript(text=parts[2] if len(parts) > 2 else UNKNOWN, part=run.excerpt)


def sql(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """The shell commands inside the statements of a database client, and those that its server
    runs."""
    for text in (*run.args, run.stdin):
        for match in _SQL_RUNS.finditer(text):
            yield NestedScript(text=match[1] or match[2], part=run.excerpt)


# fmt: off
_OFTEN_NESTED = frozenset((
    "rm", "sh", "bash", "dash", "zsh", "dd", "shred", "sudo", "chmod", "chown", "find", "mkfs",
    "mv", "/bin/rm", "/bin/sh", "/bin/bash", "/usr/bin/rm",
))
# They treat their arguments as text.
_TEXT_ONLY = frozenset((
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "man", "tldr", "cheat", "info",
    "which", "whereis", "type", "whatis", "apropos", "help", "test", "[", "[[", "expr", "logger",
    "say", "cowsay", "figlet", "notify-send", "kill", "killall", "pkill", "pgrep", "holdfast",
))
# fmt: on


_OPTION = re.compile(r"-[-\w]")


def nested_in(run: ProgramCall, shell: ShellState) -> Iterable[Nested]:
    """The commands, scripts and code that this command runs, as far as they are known."""
    if run.program in SHELLS:
        return shell_script(run, shell)
    if run.program in _HANDLERS:
        return _HANDLERS[run.program](run, shell)
    if run.program in ESCAPES:
        return ESCAPES[run.program](run, shell)
    if run.program in WRAPPERS:
        return unwrap(run, WRAPPERS[run.program])
    name = run.program.rstrip("0123456789.") or run.program
    if name in INTERPRETERS:
        return interpreter_code(run, shell, INTERPRETERS[name])
    return _unknown_program(run, shell)


def _eval(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    text = " ".join(run.args)
    yield NestedScript(
        text=text, part=run.excerpt, arguments=shell.arguments, same_shell=True, inline=True
    )


def _source(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    if run.args:
        piped = run.stdin if run.args[0] in STDIN_NAMES else None
        content = piped or shell.files.script(run.paths.resolve(run.args[0]))
        if content is not None:
            yield NestedScript(text=content, part=run.excerpt, same_shell=True)


def _trap(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    words = [word for word in run.args if word not in ("--", "-", "-p", "-l")]
    if words:
        yield NestedScript(text=words[0], part=run.excerpt)


def _alias(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals and text.split()[:1] != [name]:
            yield NestedScript(text=text, part=run.excerpt)
        elif equals:
            yield NestedCommand(words=tuple(text.split()))


def _unknown_program(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """A file that the same script wrote or downloaded, run by its path; or a program that may run
    the one in its arguments, since that one has options of its own."""
    if "/" in run.called_as:
        content = shell.files.script(run.paths.resolve(run.called_as))
        if content is not None:
            yield NestedScript(text=content, part=run.excerpt, arguments=run.args)
    if shell.files and run.program not in _TEXT_ONLY and run.program not in EFFECT_PROGRAMS:
        yield from written_code(run, shell)
    if run.program not in _TEXT_ONLY and run.program not in _OFTEN_NESTED:
        for at, (word, after) in enumerate(pairwise(run.args)):
            if (
                word in _OFTEN_NESTED
                and _OPTION.match(after)
                and (word not in SHELLS or "c" in after)
            ):
                yield NestedCommand(words=run.args[at:])
                return


def _stdin_script(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    if run.stdin:
        yield NestedScript(text=run.stdin, part=run.excerpt)


def _tmux(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("SLfctsnxye", mixed=True)
    text = [word for word in options.operands if " " in word]
    words = options.operands[1:] if run.program == "tmux" else options.operands
    for script in text or [" ".join(words)]:
        yield NestedScript(text=script, part=run.excerpt)


def _watch(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("nwrmpPsSi", ("interval", "warmup", "runs", "prepare"), mixed=False)
    if run.program == "watch":
        yield NestedScript(text=" ".join(options.operands), part=run.excerpt)
        return
    for text in options.operands:
        yield NestedScript(text=text, part=run.excerpt)


_HANDLERS: dict[str, Callable[[ProgramCall, ShellState], Iterator[Nested]]] = {
    "env": env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "xargs": xargs,
    "parallel": parallel,
    "find": find,
    "ssh": ssh,
    "ansible": ansible,
    "sqlite3": sql,
    "psql": sql,
    "mysql": sql,
    "mariadb": sql,
    "docker": container_exec,
    "podman": container_exec,
    "nerdctl": container_exec,
    "docker-compose": container_exec,
    "kubectl": container_exec,
    "oc": container_exec,
    "at": _stdin_script,
    "batch": _stdin_script,
    "tmux": _tmux,
    "screen": _tmux,
    "git": git,
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "nawk": awk,
    "sed": sed,
    "gsed": sed,
    "watch": _watch,
    "hyperfine": _watch,
    "concurrently": _watch,
}
NESTING_PROGRAMS = frozenset((*_HANDLERS, *WRAPPERS, *ESCAPES, *SHELLS, *INTERPRETERS))
# They are there to start programs, a shell included.
TRANSPARENT = frozenset(WRAPPERS) | SHELLS | frozenset((
    "env", "eval", "source", ".", "trap", "alias", "xargs", "parallel", "docker", "podman",
    "nerdctl", "docker-compose", "kubectl", "oc", "tmux", "screen", "watch", "hyperfine",
    "concurrently", "su", "runuser", "sg", "newgrp", "script", "nix-shell", "nodemon", "flock",
    "ansible", "xterm", "urxvt", "konsole", "gnome-terminal", "terminator",
))  # fmt: skip
