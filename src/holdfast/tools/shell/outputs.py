"""Outputs: what a program prints, where that can be known without running it."""

import re
from collections.abc import Callable

from holdfast.tools.shell.decoding import DECODERS
from holdfast.tools.shell.finding import found_by
from holdfast.tools.shell.markers import NET, READ, UNKNOWN, marks_of
from holdfast.tools.shell.quoting import unescape_ansi
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell

BY_NAME = "all-of-that-name"  # in place of the numbers of processes

# fmt: off
_FETCH = frozenset(("curl", "wget", "fetch", "http", "https", "aria2c", "lynx", "w3m", "nc"))
# Their output is meant for `eval`, and sets variables.
_PREPARES = frozenset((
    "ssh-agent", "pyenv", "rbenv", "nodenv", "goenv", "jenv", "direnv", "opam", "brew", "conda",
    "starship", "zoxide", "fnm", "mise", "asdf", "dircolors", "luarocks", "minikube", "keychain",
    "register-python-argcomplete", "thefuck", "fzf", "rustup", "nvm", "volta", "perlbrew",
))
_READ = frozenset((
    "cat", "head", "tail", "tac", "less", "more", "nl", "tee", "zcat", "bzcat", "xzcat", "strings",
    "od", "hexdump", "tar", "gzip", "zip", "openssl", "gpg", "sort", "uniq", "cut", "paste", "jq",
))
_COMPLETES = frozenset(("completion", "completions", "--completion", "generate-shell-completion"))
_SHOWS = frozenset(("archive", "bundle", "show", "diff", "format-patch", "cat-file"))
_SILENT = frozenset(("true", "false", ":", "test", "[", "[[", "cd", "mkdir", "touch", "sleep"))
_SECRETIVE = frozenset(("env", "printenv", "history", "set", "export"))
# fmt: on


def output_of(run: Run, shell: Shell) -> str:
    """Its output, with marks for what nobody knows."""
    known = _KNOWN.get(run.program)
    if known is not None and (out := known(run, shell)) is not None:
        return out
    if (
        run.program in _SILENT
        or run.program in _PREPARES
        or not _COMPLETES.isdisjoint(run.args[:2])
    ):
        return ""
    if run.program in _FETCH:
        return NET
    if run.program in _SECRETIVE and not run.args:
        return READ
    passed = "".join(mark for mark in marks_of(run.stdin) if mark != UNKNOWN)
    if run.program in _READ:
        return passed + (READ if run.options().operands else "") or UNKNOWN
    return passed + UNKNOWN


def _echo(run: Run, shell: Shell) -> str:
    words = list(run.args)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes |= "e" in words.pop(0)
    text = " ".join(words)
    return (_unescape_echo(text) if escapes else text) + "\n"


def _printf(run: Run, shell: Shell) -> str:
    return "" if run.args[:1] == ("-v",) else printed(run.args)


def printed(args: tuple[str, ...]) -> str:
    """What `printf` makes of a format and what follows it."""
    words = [word for word in args if word != "--"]
    if not words:
        return ""
    text, values = unescape_ansi(words[0]), words[1:]

    def fill(match: re.Match[str]) -> str:
        value = values.pop(0)
        return _unescape_echo(value) if match[0].endswith("b") else value

    while values and "%" in text:
        text, count = re.subn(r"%[-0-9.]*[bsdqxciu]", fill, text, count=1)
        if not count:
            break
    return text + "".join(f" {value}" for value in values)


def _unescape_echo(text: str) -> str:
    """As `$'…'`, but that an octal number may have a nought of its own."""
    return unescape_ansi(re.sub(r"\\0([0-7]{3})", r"\\\1", text))


def _tee(run: Run, shell: Shell) -> str:
    options = run.options()
    for path in options.operands:
        full = run.place.resolve(path)
        before = shell.files.get(full, "") if options.has("a", "append") else ""
        shell.files[full] = before + run.stdin
    return run.stdin


def _cat(run: Run, shell: Shell) -> str | None:
    operands = run.options().operands
    if not operands or operands == ("-",):
        return run.stdin
    held = [shell.files.get(run.place.resolve(path), READ) for path in operands]
    return "".join(held)


def _copy(run: Run, shell: Shell) -> str:
    """A copy holds what the file held that it was made of."""
    operands = run.options().operands
    for path in operands[:-1]:
        held = shell.files.get(run.place.resolve(path))
        if held is not None:
            into = run.place.resolve(operands[-1])
            shell.files[into] = shell.files[f"{into}/{path.rpartition('/')[2]}"] = held
    return ""


def _find(run: Run, shell: Shell) -> str:
    return "\n".join(found_by(run.args)) + "\n"


def _ls(run: Run, shell: Shell) -> str:
    operands = run.options().operands
    return "\n".join(f"{folder.rstrip('/')}/*" for folder in operands) or "*"


def _mktemp(run: Run, shell: Shell) -> str:
    return "/tmp/tmp.made"


def _which(run: Run, shell: Shell) -> str | None:
    operands = run.options().operands
    return operands[-1] if operands else None


def _command(run: Run, shell: Shell) -> str | None:
    return run.args[1] if len(run.args) > 1 and run.args[0] in ("-v", "-V") else None


def _pwd(run: Run, shell: Shell) -> str:
    return run.place.cwd


def _realpath(run: Run, shell: Shell) -> str | None:
    operands = run.options().operands
    return run.place.resolve(operands[0]) if operands else None


def _dirname(run: Run, shell: Shell) -> str | None:
    operands = run.options().operands
    if not operands or operands[0][:1] not in "/~":
        return UNKNOWN
    return operands[0].rstrip("/").rpartition("/")[0] or "/"


def _git(run: Run, shell: Shell) -> str | None:
    if not _SHOWS.isdisjoint(run.args[:3]):
        return READ
    return "." if "--show-toplevel" in run.args else None


def _curl(run: Run, shell: Shell) -> str | None:
    """What goes to a file does not go into the pipe; the file holds it."""
    options = run.options("oXHdFuAebTxmK" if run.program == "curl" else "OoPUetT")
    to = options.value("o" if run.program == "curl" else "O", "output", "output-document")
    if to is None or to in ("-", "/dev/stdout"):
        if run.program == "curl" and not options.has("O", "remote-name"):
            return NET
        if run.program == "wget" and to is not None:
            return NET
        for url in options.operands:
            shell.files[run.place.resolve(url.rpartition("/")[2] or "index.html")] = NET
        return UNKNOWN if run.program == "wget" else ""
    shell.files[run.place.resolve(to)] = NET
    return ""


_KNOWN: dict[str, Callable[[Run, Shell], str | None]] = {
    **DECODERS,
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": _tee,
    "cp": _copy,
    "mv": _copy,
    "ln": _copy,
    "install": _copy,
    "pgrep": lambda run, shell: BY_NAME,
    "pidof": lambda run, shell: BY_NAME,
    "tac": lambda run, shell: run.stdin or None,
    "find": _find,
    "ls": _ls,
    "mktemp": _mktemp,
    "which": _which,
    "command": _command,
    "pwd": _pwd,
    "realpath": _realpath,
    "readlink": _realpath,
    "dirname": _dirname,
    "whoami": lambda run, shell: "agent",
    "git": _git,
    "curl": _curl,
    "wget": _curl,
}
