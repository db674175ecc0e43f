"""What a program prints, where that can be known without running it: `echo`, decoders, `find`,
downloads."""

import base64
import binascii
import re
from collections.abc import Callable
from itertools import pairwise

from holdfast.tools.shell.expansion import unescape_ansi
from holdfast.tools.shell.invocation import ProgramCall
from holdfast.tools.shell.markers import (
    DECODED,
    FILE_CONTENT,
    NETWORK_DATA,
    UNKNOWN,
    markers_in,
    sanitise,
    strip_markers,
)
from holdfast.tools.shell.state import ShellState

ANY_DEPTH = "**"  # at the end of a path: all that is below, at any depth
SOME_FILE = "found"  # as a name: some of what is below, chosen by age, size or owner

_NAME_OPTIONS = frozenset(("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"))
# fmt: off
_FILTER_OPTIONS = frozenset((
    "-mtime", "-mmin", "-newer", "-size", "-empty", "-user", "-perm", "-atime", "-ctime", "-amin",
    "-cmin", "-inum", "-samefile", "-newermt",
))
# fmt: on
_WILDCARDS = "*./?[]"


def find_roots(args: tuple[str, ...]) -> list[str]:
    roots: list[str] = []
    for word in args:
        if word[:1] in ("-", "(", "!"):
            if word in ("-H", "-L", "-P") and not roots:
                continue
            break
        roots.append(word)
    return roots or ["."]


def find_name(args: tuple[str, ...]) -> str:
    """The last part of the found paths: the searched name, if it is specific."""
    for option, value in pairwise(args):
        if option in _NAME_OPTIONS and value.strip(_WILDCARDS):
            return value.lstrip("*/") or "*"
    return ANY_DEPTH if _FILTER_OPTIONS.isdisjoint(args) else SOME_FILE


def find_results(args: tuple[str, ...]) -> list[str]:
    """The paths that `find` finds, one for each root."""
    name = find_name(args)
    return [f"{root.rstrip('/')}/{name}" for root in find_roots(args)]


def _base64(run: ProgramCall, shell: ShellState) -> str | None:
    options = run.options("w")
    if not options.has("dD", "decode"):
        return markers_in(run.stdin) + (FILE_CONTENT if options.operands else "") or UNKNOWN
    return DECODED + _decode_text(_input_text(run, shell), _from_base64)


def _xxd(run: ProgramCall, shell: ShellState) -> str | None:
    if not run.options("cglos").has("r", "revert"):
        return None
    return DECODED + _decode_text(run.stdin, lambda text: bytes.fromhex("".join(text.split())))


def _decode_text(text: str, decode: Callable[[str], bytes]) -> str:
    known = strip_markers(text)
    try:
        return (
            sanitise(decode(known).decode(errors="replace"))
            if known.strip()
            else markers_in(text) + UNKNOWN
        )
    except (binascii.Error, ValueError):
        return markers_in(text) + UNKNOWN


def _from_base64(text: str) -> bytes:
    text = "".join(text.split())
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _openssl(run: ProgramCall, shell: ShellState) -> str | None:
    if "-d" not in run.args:
        return None
    return DECODED + _decode_text(run.stdin, _from_base64)


def _decompress(run: ProgramCall, shell: ShellState) -> str | None:
    if run.program == "gzip" and not run.options().has("d", "decompress"):
        return None
    return DECODED + markers_in(run.stdin) + UNKNOWN


def _rev(run: ProgramCall, shell: ShellState) -> str:
    return DECODED + "\n".join(line[::-1] for line in run.stdin.split("\n"))


def _tr(run: ProgramCall, shell: ShellState) -> str | None:
    operands = run.options().operands
    text = strip_markers(run.stdin)
    if len(operands) == 1 and run.options().has("d", "delete"):
        return DECODED + "".join(letter for letter in run.stdin if letter not in operands[0])
    if len(operands) != 2 or not text.strip():
        return None
    table = dict(zip(_expand_set(operands[0]), _expand_set(operands[1]), strict=False))
    return DECODED + "".join(table.get(letter, letter) for letter in run.stdin)


def _expand_set(given: str) -> str:
    given = given.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z")
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), given)


def _input_text(run: ProgramCall, shell: ShellState) -> str:
    operands = run.options("w").operands
    if not operands or operands == ("-",):
        return run.stdin
    return "".join(shell.files.get(run.paths.resolve(path), FILE_CONTENT) for path in operands)


DECODERS: dict[str, Callable[[ProgramCall, ShellState], str | None]] = {
    "base64": _base64,
    "base32": lambda run, shell: DECODED + UNKNOWN if run.options().has("d", "decode") else None,
    "xxd": _xxd,
    "openssl": _openssl,
    "gunzip": _decompress,
    "zcat": _decompress,
    "gzip": _decompress,
    "bunzip2": _decompress,
    "xz": _decompress,
    "rev": _rev,
    "tr": _tr,
}


PIDS_BY_NAME = "all-of-that-name"  # in place of the numbers of processes

# fmt: off
_DOWNLOADERS = frozenset(("curl", "wget", "fetch", "http", "https", "aria2c", "lynx", "w3m", "nc"))
# Their output is meant for `eval`, and sets variables.
_SHELL_INIT = frozenset((
    "ssh-agent", "pyenv", "rbenv", "nodenv", "goenv", "jenv", "direnv", "opam", "brew", "conda",
    "starship", "zoxide", "fnm", "mise", "asdf", "dircolors", "luarocks", "minikube", "keychain",
    "register-python-argcomplete", "thefuck", "fzf", "rustup", "nvm", "volta", "perlbrew",
))
_FILE_READERS = frozenset((
    "cat", "head", "tail", "tac", "less", "more", "nl", "tee", "zcat", "bzcat", "xzcat", "strings",
    "od", "hexdump", "tar", "gzip", "zip", "openssl", "gpg", "sort", "uniq", "cut", "paste", "jq",
))
_COMPLETION_OPTIONS = frozenset(
    ("completion", "completions", "--completion", "generate-shell-completion")
)
_GIT_PRINTS_CONTENT = frozenset(("archive", "bundle", "show", "diff", "format-patch", "cat-file"))
_SILENT = frozenset(("true", "false", ":", "test", "[", "[[", "cd", "mkdir", "touch", "sleep"))
_PRINTS_ENVIRONMENT = frozenset(("env", "printenv", "history", "set", "export"))
# fmt: on


def predict_output(run: ProgramCall, shell: ShellState) -> str:
    """The output of a program, with markers for unknown parts."""
    known = _HANDLERS.get(run.program)
    if known is not None and (out := known(run, shell)) is not None:
        return out
    if (
        run.program in _SILENT
        or run.program in _SHELL_INIT
        or not _COMPLETION_OPTIONS.isdisjoint(run.args[:2])
    ):
        return ""
    if run.program in _DOWNLOADERS:
        return NETWORK_DATA
    if run.program in _PRINTS_ENVIRONMENT and not run.args:
        return FILE_CONTENT
    passed = "".join(mark for mark in markers_in(run.stdin) if mark != UNKNOWN)
    if run.program in _FILE_READERS:
        return passed + (FILE_CONTENT if run.options().operands else "") or UNKNOWN
    return passed + UNKNOWN


def _echo(run: ProgramCall, shell: ShellState) -> str:
    words = list(run.args)
    escapes = False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes |= "e" in words.pop(0)
    text = " ".join(words)
    return (_unescape_echo(text) if escapes else text) + "\n"


def _printf(run: ProgramCall, shell: ShellState) -> str:
    return "" if run.args[:1] == ("-v",) else printf_output(run.args)


def printf_output(args: tuple[str, ...]) -> str:
    """The output of `printf` for a format and its arguments."""
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
    """As `$'…'`, except that an octal number may begin with an additional 0."""
    return unescape_ansi(re.sub(r"\\0([0-7]{3})", r"\\\1", text))


def _tee(run: ProgramCall, shell: ShellState) -> str:
    options = run.options()
    for path in options.operands:
        full = run.paths.resolve(path)
        before = shell.files.get(full, "") if options.has("a", "append") else ""
        shell.files[full] = before + run.stdin
    return run.stdin


def _cat(run: ProgramCall, shell: ShellState) -> str | None:
    operands = run.options().operands
    if not operands or operands == ("-",):
        return run.stdin
    content = [shell.files.get(run.paths.resolve(path), FILE_CONTENT) for path in operands]
    return "".join(content)


def _copy(run: ProgramCall, shell: ShellState) -> str:
    """A copy has the known content of the original file."""
    operands = run.options().operands
    for path in operands[:-1]:
        content = shell.files.get(run.paths.resolve(path))
        if content is not None:
            into = run.paths.resolve(operands[-1])
            shell.files[into] = shell.files[f"{into}/{path.rpartition('/')[2]}"] = content
    return ""


def _find(run: ProgramCall, shell: ShellState) -> str:
    return "\n".join(find_results(run.args)) + "\n"


def _ls(run: ProgramCall, shell: ShellState) -> str:
    operands = run.options().operands
    return "\n".join(f"{folder.rstrip('/')}/*" for folder in operands) or "*"


def _mktemp(run: ProgramCall, shell: ShellState) -> str:
    return "/tmp/tmp.made"


def _which(run: ProgramCall, shell: ShellState) -> str | None:
    operands = run.options().operands
    return operands[-1] if operands else None


def _command(run: ProgramCall, shell: ShellState) -> str | None:
    return run.args[1] if len(run.args) > 1 and run.args[0] in ("-v", "-V") else None


def _pwd(run: ProgramCall, shell: ShellState) -> str:
    return run.paths.cwd


def _realpath(run: ProgramCall, shell: ShellState) -> str | None:
    operands = run.options().operands
    return run.paths.resolve(operands[0]) if operands else None


def _dirname(run: ProgramCall, shell: ShellState) -> str | None:
    operands = run.options().operands
    if not operands or operands[0][:1] not in "/~":
        return UNKNOWN
    return operands[0].rstrip("/").rpartition("/")[0] or "/"


def _git(run: ProgramCall, shell: ShellState) -> str | None:
    if not _GIT_PRINTS_CONTENT.isdisjoint(run.args[:3]):
        return FILE_CONTENT
    return "." if "--show-toplevel" in run.args else None


def _curl(run: ProgramCall, shell: ShellState) -> str | None:
    """Output that goes to a file does not go into the pipe; the content of the file is recorded."""
    options = run.options("oXHdFuAebTxmK" if run.program == "curl" else "OoPUetT")
    to = options.value("o" if run.program == "curl" else "O", "output", "output-document")
    if to is None or to in ("-", "/dev/stdout"):
        if run.program == "curl" and not options.has("O", "remote-name"):
            return NETWORK_DATA
        if run.program == "wget" and to is not None:
            return NETWORK_DATA
        for url in options.operands:
            shell.files[run.paths.resolve(url.rpartition("/")[2] or "index.html")] = NETWORK_DATA
        return UNKNOWN if run.program == "wget" else ""
    shell.files[run.paths.resolve(to)] = NETWORK_DATA
    return ""


_HANDLERS: dict[str, Callable[[ProgramCall, ShellState], str | None]] = {
    **DECODERS,
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": _tee,
    "cp": _copy,
    "mv": _copy,
    "ln": _copy,
    "install": _copy,
    "pgrep": lambda run, shell: PIDS_BY_NAME,
    "pidof": lambda run, shell: PIDS_BY_NAME,
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
