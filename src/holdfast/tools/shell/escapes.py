"""Programs that are no shells but run commands: in an option, a script of their own, or a file."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from holdfast.tools.shell.environment import less_commands
from holdfast.tools.shell.invocation import (
    Nested,
    NestedCode,
    NestedCommand,
    NestedScript,
    ProgramCall,
    parse_options,
)
from holdfast.tools.shell.markers import NETWORK_DATA
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.state import ShellState

# The short options and long options whose value is a command, for each program.
# fmt: off
COMMAND_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "su": ("c", ("command", "session-command")), "runuser": ("c", ("command",)),
    "sg": ("c", ()), "newgrp": ("c", ()), "script": ("c", ("command",)),
    "nix-shell": ("", ("run", "command")), "nodemon": ("x", ("exec",)),
    "tar": ("IF", (
        "to-command", "use-compress-program", "checkpoint-action", "info-script",
        "new-volume-script", "rsh-command", "rmt-command",
    )),
    "bsdtar": ("", ("use-compress-program",)), "cpio": ("", ("rsh-command",)),
    "rsync": ("e", ("rsh", "rsync-path")),
    "tcpdump": ("z", ("postrotate-command",)),
    "split": ("", ("filter",)), "sort": ("", ("compress-program",)),
    "mapfile": ("C", ()), "readarray": ("C", ()), "complete": ("C", ()), "compgen": ("C", ()),
    "sftp": ("S", ()), "scp": ("S", ()),
    "start-stop-daemon": ("xa", ("exec", "startas")),
    "aria2c": ("", (
        "on-download-complete", "on-download-error", "on-download-start", "on-download-stop",
        "on-download-pause", "on-bt-download-complete",
    )),
    "wget": ("", ("use-askpass",)),
    "openvpn": ("", (
        "up", "down", "route-up", "route-pre-down", "ipchange", "tls-verify", "client-connect",
        "client-disconnect", "learn-address", "auth-user-pass-verify",
    )),
    "gem": ("e", ("editor",)), "rpm": ("", ("pipe",)), "rpmbuild": ("", ("pipe",)),
    "dmsetup": ("", ("exec",)), "mail": ("", ("exec",)), "nano": ("s", ("speller",)),
    "pico": ("s", ()), "rg": ("", ("pre",)), "fd": ("xX", ("exec", "exec-batch")),
    "fzf": ("", ("preview",)), "xterm": ("e", ()), "urxvt": ("e", ()), "konsole": ("e", ()),
    "gnome-terminal": ("e", ("command",)), "terminator": ("ex", ("command",)),
    "svn": ("", ("diff-cmd", "diff3-cmd", "editor-cmd")), "feh": ("A", ("action", "action1")),
    "borg": ("", ("rsh",)), "restic": ("", ("password-command",)), "pidstat": ("e", ()),
    "lynx": ("", ("editor",)),
}
# fmt: on


def option_commands(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    short, longs = COMMAND_OPTIONS[run.program]
    options = run.options(short, longs)
    values = [value for name, value in options.values if name in short]
    values += [value for name, value in options.longs if name in longs]
    # What an option names by a few letters, or with a single dash as long ones are in some.
    values += [after for word, after in pairwise(run.args) if word.lstrip("-") in longs]
    for text in dict.fromkeys(values):
        yield NestedScript(text=text.removeprefix("exec=").lstrip(":!|"), part=run.excerpt)
    yield from _ssh_settings(run)


def _ssh_settings(run: ProgramCall) -> Iterator[Nested]:
    if run.program not in ("scp", "sftp"):
        return
    for setting in run.options("oFiJlPSBbDRs").values:
        key, _, value = setting[1].replace("=", " ", 1).partition(" ")
        if setting[0] == "o" and key.lower() in ("proxycommand", "localcommand"):
            yield NestedScript(text=value, part=run.excerpt)


_GDB_COMMANDS = re.compile(r"^\s*(?:!|(?:shell|make|platform shell|process launch --shell)\s)(.*)")
_GDB_CODE = re.compile(r"^\s*(?:python|py|pi|python-interactive|script|guile|gu)\s+(.*)", re.DOTALL)
_GDB_PIPES = re.compile(r"^\s*(?:pipe|\|)\s.*\|\s*(.*)")
_GDB_OPTIONS = ("-ex", "--ex", "-eval-command", "--eval-command", "-iex", "--init-eval-command")
_LLDB_OPTIONS = ("-o", "--one-line", "-O", "--one-line-before-file", "-k")


def _debugger(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    part = run.excerpt
    given = _GDB_OPTIONS if run.program != "lldb" else _LLDB_OPTIONS
    commands = [after for word, after in pairwise(run.args) if word in given]
    commands += [
        word.partition("=")[2] for word in run.args if word.startswith(given) and "=" in word
    ]
    for word, after in pairwise(run.args):
        if word in ("-x", "--command", "-s", "--source"):
            commands += shell.files.get(run.paths.resolve(after), "").splitlines()
    for text in (*commands, *run.stdin.splitlines()):
        if (match := _GDB_COMMANDS.match(text)) is not None:
            yield NestedScript(text=match[1].strip() or "sh", part=part)
        elif (match := _GDB_PIPES.match(text)) is not None:
            yield NestedScript(text=match[1], part=part)
        elif (match := _GDB_CODE.match(text)) is not None:
            yield NestedCode(text=match[1], part=part)
    if run.program == "gdb" and "--args" in run.args:
        yield NestedCommand(words=run.args[run.args.index("--args") + 1 :])


_VIM_RUNS = re.compile(
    r"^[\s:]*(?:sil(?:ent)?!?\s+)?(?:[%.$\d,'<>]*!|r(?:ead)?\s*!|w(?:rite)?\s*!)(.*)"
)
_VIM_CODE = re.compile(
    r"^[\s:]*(?:py(?:thon)?[3x]?|py3do|lua(?:do)?|rub(?:y)?|perl?|tcl|mz(?:scheme)?|call|cal|echo|let|exe(?:cute)?)"
    r"\s+(.*)",
    re.DOTALL,
)
_VIM_SHELL = re.compile(r"^[\s:]*(?:sh(?:ell)?|ter(?:minal)?)\b\s*(.*)")
_VIM_SETTINGS = re.compile(
    r"^[\s:]*se(?:t(?:local)?)?\s.*?\b(?:shell|sh|makeprg|mp|grepprg|gp|kp)=(\S+)"
)


def _vim(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    part = run.excerpt
    commands = [
        after for word, after in pairwise(run.args) if word in ("-c", "--cmd", "-S", "-u", "-s")
    ]
    commands += [word[1:] for word in run.args if word[:1] == "+" and not word[1:2].isdecimal()]
    commands += [word[2:] for word in run.args if word.startswith("-c") and len(word) > 2]
    if "-" not in run.args:
        commands += run.stdin.splitlines()
    for text in commands:
        for pattern, kind in ((_VIM_RUNS, NestedScript), (_VIM_CODE, NestedCode)):
            if (match := pattern.match(text)) is not None:
                yield kind(text=match[1], part=part)
                break
        else:
            if (match := _VIM_SHELL.match(text)) is not None:
                yield NestedScript(text=match[1] or "sh", part=part)
            elif (match := _VIM_SETTINGS.match(text)) is not None and "/" in match[1]:
                yield NestedCommand(words=(match[1], "-c", ":"))


def _line_commands(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """Lines of its input that begin with `!`, as in ed, mail, ftp or a debugger."""
    for line in (*run.stdin.splitlines(), *_request(run)):
        head = line.strip().removeprefix("~").lstrip("0123456789,$.")
        for prefix in ("!", "r !", "w !", "system ", "shell "):
            if head.startswith(prefix):
                yield NestedScript(text=head.removeprefix(prefix), part=run.excerpt)


def _request(run: ProgramCall) -> list[str]:
    """-R of debugfs, -c and -e of others."""
    return [after for word, after in pairwise(run.args) if word in ("-R", "-c", "-e")]


def _man(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("PHCLMRSermE", ("pager", "html", "browser"))
    for name, value in (*options.values, *options.longs):
        if name in ("P", "pager", "H", "html", "browser") and value:
            yield NestedScript(text=value, part=run.excerpt)


def _zip(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word, after in pairwise(run.args):
        if word in ("-TT", "--unzip-command"):
            yield NestedScript(text=after, part=run.excerpt)
    for word in run.args:
        if word.startswith(("-TT", "--unzip-command=")) and word != "-TT":
            yield NestedScript(text=word.partition("=")[2] or word[3:], part=run.excerpt)


def _less(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    yield from less_commands(list(run.args), run.excerpt)


_APT_HOOKS = re.compile(r"::(?:Pre|Post)-(?:Invoke|Install-Pkgs)[\w-]*(?:::)?=(.+)", re.IGNORECASE)
_APT_HOOK_LINES = re.compile(r"(?:Pre|Post)-(?:Invoke|Install-Pkgs)[\w-]*\s*\{\s*\"([^\"]+)\"")


def _apt(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word in run.args:
        if (match := _APT_HOOKS.search(word)) is not None:
            yield NestedScript(text=match[1], part=run.excerpt)
    for word, after in pairwise(run.args):
        if word in ("-c", "--config-file"):
            content = shell.files.get(run.paths.resolve(after), "")
            for match in _APT_HOOK_LINES.finditer(content):
                yield NestedScript(text=match[1], part=run.excerpt)


_RPM_MACROS = re.compile(r"%\((.{0,1000})\)|%\{lua:(.{0,1000})\}", re.DOTALL)


def _rpm(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    yield from option_commands(run, shell)
    for word in run.args:
        if (match := _RPM_MACROS.search(word)) is not None:
            if match[1] is not None:
                yield NestedScript(text=match[1], part=run.excerpt)
            else:
                yield NestedCode(text=match[2], part=run.excerpt)


def make(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """The recipes of a makefile that this very command wrote or hands over."""
    options = run.options("fCjoWIlE", ("file", "makefile", "directory", "eval"))
    name = options.value("f", "file", "makefile") or "Makefile"
    piped = name in ("-", "/dev/stdin")
    text = run.stdin if piped else shell.files.script(run.paths.resolve(name)) or ""
    given = [value for name, value in options.longs if name == "eval"]
    given += [value for name, value in options.values if name == "E"]
    lines = [line for part in (text, *given) for line in part.splitlines()]
    recipes = [line.strip().lstrip("@-+") for line in lines if line[:1] == "\t"]
    if piped and NETWORK_DATA in text:
        recipes.append(NETWORK_DATA)
    for word in run.args:
        name, _, value = word.partition("=")
        if name in ("SHELL", "CC", "CXX", "LD", "MAKE") and "/" in value:
            yield NestedCommand(words=(value, "-c", ":"))
    if recipes:
        yield NestedScript(text="\n".join(recipes).replace("$$", "$"), part=run.excerpt)


def _strace(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = parse_options(run.args, valued="oepsPaIbuXESO", valued_longs=("output",), mixed=False)
    output = options.value("o", "output") or ""
    if output[:1] in ("|", "!"):
        yield NestedScript(text=output[1:], part=run.excerpt)
    yield NestedCommand(words=options.operands)


def _logsave(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    words = run.options("a", mixed=False).operands
    yield NestedCommand(words=words[1:])


def _run_parts(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("", ("regex", "arg", "umask"))
    name = (options.value("", "regex") or "*").strip("^$")
    for folder in options.operands:
        yield NestedCommand(words=(f"{folder.rstrip('/')}/{name}",))


_TCL_RUNS = re.compile(r"(?:\bspawn|\bexec|\bsystem|\bopen\s*\"?\|)\s+([^;\n}\]]+)")
_TCL_CHANNELS = re.compile(r"[<>2]*[<>]@?\s*(?:std(?:in|out|err)|@\w+)|[&|]\s*$")


def _tcl(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    texts = [after for word, after in pairwise(run.args) if word == "-c"]
    texts += [shell.files.get(run.paths.resolve(word), "") for word in run.args]
    for text in (*texts, "" if texts and any(texts) else run.stdin):
        if "socket" in text and ("exec" in text or "eval" in text):
            yield NestedCode(text="socket /bin/sh", part=run.excerpt)
        for match in _TCL_RUNS.finditer(text):
            words = match[1].strip().removeprefix("-noecho ")
            yield NestedScript(text=_TCL_CHANNELS.sub("", words), part=run.excerpt)


_TEX_RUNS = re.compile(r"write18\s*\{([^}]{0,1000})\}|\\(?:input|include)\s*\{?\|\"?([^}\"]+)")


def _tex(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for text in (*run.args, *_written(run, shell), run.stdin):
        for match in _TEX_RUNS.finditer(text):
            yield NestedScript(text=match[1] or match[2], part=run.excerpt)


_PUPPET_RUNS = re.compile(r"exec\s*\{\s*(['\"])(.*?)\1", re.DOTALL)


def _puppet(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for text in (*run.args, *_written(run, shell)):
        for match in _PUPPET_RUNS.finditer(text):
            yield NestedScript(text=match[2].replace('\\"', '"'), part=run.excerpt)


_PLAYBOOK_RUNS = re.compile(r"\b(?:shell|command|raw|script|cmd)\s*:\s*(?:>-?|\|-?)?\s*([^\n}\]]+)")


def _playbook(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for text in (*_written(run, shell), run.stdin):
        for match in _PLAYBOOK_RUNS.finditer(text):
            yield NestedScript(text=match[1].strip("'\""), part=run.excerpt)


def _scripted_by_file(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """It reads a configuration that is a shell script."""
    for text in _written(run, shell):
        yield NestedScript(text=text, part=run.excerpt)


def _nmap(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for text in _written(run, shell):
        yield NestedCode(text=text, part=run.excerpt)
    script = run.options("", ("script",)).value("", "script") or ""
    if "/" in script:
        yield NestedCommand(words=(script,))


def _written(run: ProgramCall, shell: ShellState) -> Iterator[str]:
    """The contents of files that the same script wrote, and that this program is given."""
    if shell.files:
        for word in run.args:
            path = word.partition("=")[2] if word.startswith("-") else word
            if path and (content := shell.files.get(run.paths.resolve(path))) is not None:
                yield content


def written_code(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """What a program of any kind may run of the files that the same script wrote."""
    for text in _written(run, shell):
        yield NestedCode(text=text, part=run.excerpt)


def _go(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word, after in pairwise(run.args):
        if word in ("-toolexec", "-exec", "-vettool", "--toolexec"):
            yield NestedScript(text=after, part=run.excerpt)
    for word in run.args:
        if word.startswith(("-toolexec=", "-exec=", "-vettool=")):
            yield NestedScript(text=word.partition("=")[2], part=run.excerpt)
    yield from written_code(run, shell)


def _hg(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word in run.args:
        key, equals, value = word.removeprefix("--config=").partition("=")
        if equals and key.startswith(("alias.", "hooks.", "ui.editor", "ui.ssh", "pager.pager")):
            yield NestedScript(text=value.lstrip("!"), part=run.excerpt)


def _inner_command(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """`xdotool exec`, `ip netns exec`, `perf record`: what follows one of their words."""
    for word in ("exec", "record", "stat", "trace"):
        if word in run.args:
            words = parse_options(
                run.args[run.args.index(word) + 1 :], valued="eopFcgnG", mixed=False
            ).operands
            yield NestedCommand(words=words[1:] if run.program == "ip" else words)
            return


ESCAPES: dict[str, Callable[[ProgramCall, ShellState], Iterator[Nested]]] = {
    **dict.fromkeys(COMMAND_OPTIONS, option_commands),
    **dict.fromkeys(("gdb", "lldb", "rust-gdb", "cgdb", "gdb-multiarch"), _debugger),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "rvim", "rview", "vimdiff", "vimx"), _vim),
    **dict.fromkeys(("ed", "red", "debugfs", "dc", "gnuplot", "telnet"), _line_commands),
    **dict.fromkeys(("ftp", "lftp", "tnftp"), _line_commands),
    **dict.fromkeys(("latex", "pdflatex", "xelatex", "lualatex", "tex", "pdftex", "luatex"), _tex),
    **dict.fromkeys(("apt", "apt-get", "aptitude"), _apt),
    **dict.fromkeys(("tclsh", "expect", "wish"), _tcl),
    **dict.fromkeys(("ansible-playbook", "ansible-pull", "ansible-test"), _playbook),
    **dict.fromkeys(("neofetch", "fastfetch", "screenfetch"), _scripted_by_file),
    **dict.fromkeys(("rpm", "rpmbuild"), _rpm),
    **dict.fromkeys(("xdotool", "ip", "perf"), _inner_command),
    "man": _man,
    "zip": _zip,
    "less": _less,
    "make": make,
    "gmake": make,
    "strace": _strace,
    "run-parts": _run_parts,
    "logsave": _logsave,
    "puppet": _puppet,
    "nmap": _nmap,
    "go": _go,
    "hg": _hg,
}

# Options of programs that take a library, which is code that they load.
_LIBRARY_OPTION_NAMES: dict[str, tuple[str, ...]] = {
    "ssh-keygen": ("-D",),
    "ssh-add": ("-s",),
    "ssh": ("-I",),
    "openssl": ("-engine", "-provider-path", "-provider"),
    "curl": ("--engine",),
    "mysql": ("--default-auth", "--plugin-dir"),
    "mariadb": ("--default-auth", "--plugin-dir"),
    "enable": ("-f",),
    "sqlite3": (".load",),
    "gcc": ("-fplugin", "-wrapper", "-specs"),
    "g++": ("-fplugin", "-wrapper", "-specs"),
    "clang": ("-fplugin", "-load"),
    "node": ("-r", "--require", "--import", "--loader", "--experimental-loader"),
    "php": ("-c", "-z"),
    "ld.so": ("--preload", "--library-path", "--audit"),
    "tmux": ("-f",),
    "screen": ("-c",),
    "bash": ("--rcfile", "--init-file"),
    "java": ("-javaagent", "-agentpath"),
}
LIBRARY_OPTIONS = frozenset(_LIBRARY_OPTION_NAMES)
_ALWAYS_FOREIGN = frozenset(
    ("ssh-keygen", "ssh-add", "ssh", "openssl", "curl", "mysql", "enable", "mariadb")
)


def loads_library(run: ProgramCall) -> bool:
    """Whether it loads a library, or what amounts to one, from a place that is not the system's.
    The programs that are no part of any build may not load one from the workspace either."""
    names = _LIBRARY_OPTION_NAMES[run.program]
    own = run.program not in _ALWAYS_FOREIGN
    for at, word in enumerate(run.args):
        if not word.startswith(names):
            continue
        name = next(name for name in names if word.startswith(name))
        value = word[len(name) :].lstrip("=:") or (
            run.args[at + 1] if at + 1 < len(run.args) else ""
        )
        if name == ".load":
            value = value.strip().split(" ")[0]
        if "/" not in value and not value.endswith(".so"):
            continue
        location = run.paths.locate(value)
        if location in (PathLocation.SYSTEM, PathLocation.UNKNOWN):
            continue
        if not own or location not in (PathLocation.INSIDE, PathLocation.WORKSPACE):
            return True
    return False
