"""Shells and language interpreters: where the code is that they run, and what one-liners in other
languages do.

No program can be understood from its words alone; this finds the one-liners that do openly what a
shell command would, in the languages that an agent is likely to use.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from holdfast.tools.shell.invocation import (
    Hazard,
    Nested,
    NestedCode,
    NestedCommand,
    NestedScript,
    ProgramCall,
    parse_options,
)
from holdfast.tools.shell.state import ShellState

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "tcsh", "csh", "pwsh")
)
STDIN_NAMES = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    inline: str  # short options whose value is code
    longs: tuple[str, ...] = ()
    valued: str = ""  # short options with another value
    modules: str = ""  # short options that make the rest no script at all


INTERPRETERS: dict[str, Interpreter] = {
    "python": Interpreter(inline="c", valued="WX", modules="m"),
    "pypy": Interpreter(inline="c", valued="WX", modules="m"),
    "ipython": Interpreter(inline="c", modules="m"),
    "perl": Interpreter(inline="eE", valued="IMm"),
    "ruby": Interpreter(inline="e", valued="Ir"),
    "node": Interpreter(inline="ep", longs=("eval", "print"), valued="r"),
    "nodejs": Interpreter(inline="ep", longs=("eval", "print"), valued="r"),
    "bun": Interpreter(inline="e", longs=("eval",)),
    "deno": Interpreter(inline=""),
    "php": Interpreter(inline="r", longs=("run",), valued="dc"),
    "lua": Interpreter(inline="e", valued="l"),
    "luajit": Interpreter(inline="e", valued="l"),
    "Rscript": Interpreter(inline="e"),
    "osascript": Interpreter(inline="e"),
    "julia": Interpreter(inline="eE", longs=("eval",)),
    "groovy": Interpreter(inline="e"),
    "R": Interpreter(inline="e", valued="f"),
    "octave": Interpreter(inline="", longs=("eval",)),
    "octave-cli": Interpreter(inline="", longs=("eval",)),
    "guile": Interpreter(inline="c"),
    "jrunscript": Interpreter(inline="e", valued="l"),
    "jjs": Interpreter(inline=""),
    "jshell": Interpreter(inline=""),
    "irb": Interpreter(inline=""),
    "pry": Interpreter(inline="e"),
    "cpan": Interpreter(inline="", valued="j"),
    "gimp": Interpreter(inline="b"),
    "bpftrace": Interpreter(inline="e"),
    "ghci": Interpreter(inline="e"),
    "ghc": Interpreter(inline="e"),
    "emacs": Interpreter(inline="", longs=("eval", "execute")),
    "emacsclient": Interpreter(inline="e", longs=("eval",)),
    "elixir": Interpreter(inline="e"),
    "iex": Interpreter(inline="e"),
    "erl": Interpreter(inline="", longs=("eval",)),
    "swipl": Interpreter(inline="g", valued="t"),
    "sbcl": Interpreter(inline="", longs=("eval",)),
    "scala": Interpreter(inline="e"),
    "raku": Interpreter(inline="e"),
    "rake": Interpreter(inline="eE"),
    "tsx": Interpreter(inline="e", longs=("eval",)),
    "ts-node": Interpreter(inline="e", longs=("eval",)),
    "mongosh": Interpreter(inline="", longs=("eval",)),
    "mongo": Interpreter(inline="", longs=("eval",)),
    "crystal": Interpreter(inline="", longs=("eval",)),
    "micropython": Interpreter(inline="c"),
    "sage": Interpreter(inline="c"),
}


def shell_script(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """What a shell reads: the value of -c, a file, or its input."""
    options = parse_options(
        [word for word in run.args if not (word.startswith("+") and len(word) > 1)],
        valued="oO",
        valued_longs=("rcfile", "init-file"),
        mixed=False,
    )
    operands = options.operands
    for name, path in options.longs:
        if name in ("rcfile", "init-file") and path:
            yield from _script_file(path, run, shell)
    if options.has("c", "command"):
        text = operands[0] if operands else ""
        yield NestedScript(text=text, part=run.excerpt, arguments=operands[2:], inline=True)
    elif operands and not options.has("s") and operands[0] not in STDIN_NAMES:
        yield from _script_file(operands[0], run, shell)
    elif run.stdin:
        yield NestedScript(text=run.stdin, part=run.excerpt, arguments=operands)


def reads_terminal(run: ProgramCall) -> bool:
    """Whether this shell is given no script at all: its commands come from a terminal."""
    if run.stdin.strip():
        return False
    options = parse_options(run.args, valued="coO", valued_longs=("rcfile",), mixed=False)
    # The grammar takes the number of `0<&1` for a word.
    operands = [word for word in options.operands if not word.isdecimal()]
    return not operands and "c" not in options.shorts and not options.longs


def _script_file(path: str, run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    content = shell.files.script(run.paths.resolve(path))
    if content is not None:
        yield NestedScript(text=content, part=run.excerpt, arguments=())


def interpreter_code(
    run: ProgramCall, shell: ShellState, language: Interpreter
) -> Iterator[Nested]:
    args = run.args
    if language.modules and (at := _module_position(args)):
        yield from _module_code(args[at:], run, shell)
        args = args[:at]
    options = parse_options(
        args, valued=language.inline + language.valued, valued_longs=language.longs, mixed=False
    )
    inline = [value for name, value in options.values if name in language.inline]
    inline += [value for name, value in options.longs if name in language.longs]
    for text in inline:
        yield NestedCode(text=text, part=run.excerpt)
    if inline:
        return
    if args is not run.args:
        return
    operands = options.operands
    if operands[:1] == ("eval",) and run.program in ("deno", "bun"):
        yield NestedCode(text=" ".join(operands[1:]), part=run.excerpt)
    elif operands and operands[0] not in STDIN_NAMES:
        content = shell.files.get(run.paths.resolve(operands[0]))
        if content is not None:
            yield NestedCode(text=content, part=run.excerpt)
    elif run.stdin:
        yield NestedCode(text=run.stdin, part=run.excerpt)


_MODULE_PROGRAMS = frozenset(("pip", "pipx", "uv", "easy_install", "conda"))


def _module_position(args: tuple[str, ...]) -> int:
    """Where the options of `python -m` end, and the module's arguments begin; 0: no module."""
    for at, word in enumerate(args):
        if not word.startswith("-") or word == "-c":
            return 0
        if word == "-m":
            return at + 1
    return 0


def _module_code(words: tuple[str, ...], run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    if words and words[0] in _MODULE_PROGRAMS:
        yield NestedCommand(words=words)
    for word in words if shell.files else ():
        content = shell.files.get(run.paths.resolve(word))
        if content is not None:
            yield NestedCode(text=content, part=run.excerpt)


# Programs cannot be analysed by their text in general; these patterns find one-liners that openly
# do what a shell command would, in the languages that agents usually use.
_LITERAL = re.compile(r"""'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`""")
_RUNS = re.compile(
    r"\b(?:system|popen\w*|exec|execl\w*|execv\w*|execSync|execFile\w*|spawn\w*|run|call|check_call"
    r"|check_output|getoutput|getstatusoutput|shell_exec|passthru|proc_open|qx|Popen|sh|Open3\.\w+"
    r"|os\.execute|do shell script|os:cmd|System\.(?:cmd|shell)|shell-command|shell|callCommand"
    r"|CALL\s+.SYSTEM.\s+USING)(?!\w)\s*[(\[\s]+"
)
_BACKTICKS = re.compile(r"`([^`\n]+)`|\bqx[{/(|]([^})/|\n]+)[})/|]|%x[{(]([^})\n]+)[})]")
_DELETES = re.compile(
    r"\b(?:rmtree|rmSync|rmdirSync|rm_rf|rm_r|remove_tree|remove_entry\w*|rimraf|rmdir|fs['\")]*\.rm"
    r"|promises\.rm|emptyDirSync|removeSync|removedirs|remove_dir_all)\b\s*[(\s]+"
)
_REMOVES = re.compile(r"\b(?:unlink\w*|os\.remove|File\.delete|rename\w*)\b\s*[(\s]+")
_WRITES = re.compile(
    r"\b(?:open|writeFile\w*|appendFile\w*|file_put_contents|createWriteStream|File\.write"
    r"|IO\.write|write_text|write_bytes|copyfile|copy2?|symlink\w*)\b\s*\(\s*"
)
_READS = re.compile(
    r"\b(?:open|readFile\w*|file_get_contents|File\.read|IO\.read|read_text)\b\s*\(\s*"
)
_PATHS = re.compile(
    r"\bPath\(\s*(['\"])([^'\"\n]+)\1\s*\)(?:\.\w+\(\))?\.(write_\w+|unlink|read_\w+)"
)
_MODE = re.compile(r"""^\s*,\s*(?:mode\s*=\s*)?['"]([rwaxb+t>]+)""")
_NETWORK = re.compile(
    r"urlopen|urlretrieve|requests\.get|httpx\.get|\bfetch\(|https?\.get|open-uri|LWP|Net::HTTP"
    r"|file_get_contents\(['\"]http"
)
_EVALUATES = re.compile(
    r"(?<!re\.)(?<!json\.)(?<!toml\.)(?<!tomllib\.)"
    r"\b(?:exec|eval|compile|Function|load|loads|instance_eval|vm\.run\w+)\s*\("
)
_DECODES = re.compile(
    r"b64decode|fromhex|unhexlify|atob|base64['\"]?\s*\)|decode_base64|unpack\w*\(|rot13|zlib"
    r"|marshal|decode64|base64_decode"
)
_FORKS = re.compile(
    r"fork\s+while\s+fork|while\s*\(?\s*(?:True|1|true)\s*\)?\s*[:{;]?[^\n]{0,40}\bfork\b"
    r"|fork\s*while\s*(?:1|true)|loop\s*(?:\{|do)\s*\bfork\b|for\s*\(;;\)[^\n]{0,40}\b(?:fork|spawn)\b"
)
_CONNECTS = re.compile(
    r"\bsocket\b|TCPSocket|fsockopen|net\.connect|net\.Socket|IO::Socket|net\.Dial|TcpStream"
    r"|stream_socket_client|java\.net\.Socket|new\s+Socket",
    re.IGNORECASE,
)
_CONNECTS_BY_PATH = re.compile(r"/inet[46]?/(?:tcp|udp)/|/dev/(?:tcp|udp)/")
_SPAWNS_SHELL = re.compile(r"dup2|/bin/(?:ba)?sh|pty\.spawn|exec\s*\(?['\"](?:/bin/)?sh|STDIN")
# What sends a body; what asks for a page, which sends only what its address or its options contain;
# and what code reads files or all settings with.
_SENDS = re.compile(
    r"\b(?:requests|httpx|session|client|axios|http|https|aiohttp|got|ky)\.(?:post|put|patch)\b"
    r"|\.(?:storbinary|storlines|sendmail|send_message|sendall|send_file|sendto|put_object)\b"
    r"|Net::HTTP(?:\.post|::Post|::Put)|HTTP::Tiny|LWP::UserAgent|\bcurl_exec\b|\bsocket\.send\b"
    r"|RestClient\.(?:post|put)|HTTParty\.(?:post|put)|\bio\.copy\b|\.upload_file|\bfwrite\(\$s"
)
_ASKS = re.compile(
    r"\burlopen\(|\bfetch\(|\bhttps?\.(?:get|request)\b|\b(?:requests|httpx|axios)\.(?:get|request)\b"
    r"|file_get_contents\(\s*['\"]https?:|HTTPS?Connection|Net::HTTP\.get|LWP::Simple"
)
_PASSES = re.compile(
    r"[,(]\s*(?:data|files|json)\s*=|body\s*:|method\s*[:=]\s*['\"]?P|base64|b64|\.hex\(|urlencode"
    r"|quote\(|encodeURI|btoa|JSON\.stringify\(process"
)
_GATHERS = re.compile(
    r"\bopen\((?![^()\n]*,\s*(?:mode\s*=\s*)?['\"][wax])|readFile|\bread_(?:text|bytes)\b"
    r"|(?:File|IO)\.(?:read|open|binread)|<>|<STDIN>|createReadStream|slurp|\bglob\b"
    r"|os\.environ(?!\s*(?:\[|\.get))|process\.env\b(?!\s*(?:\.|\[))|ENV\.to_h|%ENV\b|getenv\(\)"
    r"|file_get_contents\(\s*['\"](?!https?:)"
)
_SENDS_NAMED_FILE = re.compile(r"\.(?:upload_file\w*|storbinary|storlines|send_file)\b")
_HOSTS = re.compile(
    r"https?://(\[[^\]\s]{0,60}\]|[^/'\"\s:?]+)|['\"](localhost|(?:\d{1,3}\.){3}\d{1,3}|\[?::1\]?)['\"]"
)
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?|0\.0\.0\.0")
_WALKS = re.compile(
    r"\b(?:glob\.i?glob|os\.walk|os\.listdir|os\.scandir|os\.fwalk|readdirSync|readdir|Dir\.glob|Dir\.each_child"
    r"|Dir\.children|Dir\.entries|Find\.find|globSync|scandir|filepath\.Walk|opendir\([^,\n]{0,40},|glob)\s*[(\s]+(?:Path\(\s*)?"
    r"|\bDir\[\s*"
)
_WALKED_PATHS = re.compile(
    r"(?:Path\(\s*)?(['\"])([^'\"\n]+)\1\s*\)?(?:\s*/\s*['\"][^'\"]*['\"]\)?)?\s*\.(?:rglob|glob|iterdir|walk)\b"
)
_ANY_DELETION = re.compile(
    r"\b(?:unlink\w*|os\.remove|File\.delete|FileUtils\.rm\w*|rmtree|rmSync|rmdir\w*|fs\.rm|shred|truncate)\b"
    r"|\.delete\b"
)
_ENVIRONMENT = re.compile(
    r"""(?:getenv\(|os\.environ(?:\.get)?[(\[]|process\.env[.\[]|ENV(?:\.fetch)?[\[({]|\$_ENV\[)\s*['"]?(\w+)['"]?\s*[)\]}]?"""
)
_EXECUTES_ITSELF = re.compile(r"^execl|^execv|^execvp")
_HOMES = re.compile(
    r"""os\.path\.expanduser\(\s*(['"])(~[^'"]*)\1\s*\)|Path\.home\(\)|\bos['")]*\.homedir\(\)|Dir\.home"""
    r"""|os\.environ\[['"]HOME['"]\]|os\.getenv\(['"]HOME['"]\)|process\.env\.HOME|\$ENV\{HOME\}"""
    r"""|ENV\[['"]HOME['"]\]|getenv\(['"]HOME['"]\)"""
)
_JOINED = re.compile(r"""(?<=[\w /~.-])(['"])\s*[.+]\s*\1(?=[\w /~.-])""")
_BY_TEXT = re.compile(
    r"""getattr\((?:[^()]|\([^()]*\))*,\s*['"](\w+)['"]\s*\)|\[\s*['"](\w+)['"]\s*\](?=\s*\()"""
)
_KNOWN = r"(system|popen|execSync|exec|spawnSync|spawn|run|call|rmtree|rmSync|unlinkSync|Popen)"
_ALIASES = re.compile(
    rf"\b{_KNOWN}\s*(?:\bas\b|:)\s*([A-Za-z_]\w*)|\b([A-Za-z_]\w*)\s*=\s*[\w.()'\"]*\.{_KNOWN}\b(?!\s*\()"
)
_NAMED = re.compile(r"""\$?\b(\w+)\s*=\s*(?=['"])""")
_MAX_ARGUMENTS_LENGTH = 400  # characters of a call's arguments that are looked at
_NEARBY = 80
_MAX_ALIASES = 16


def inspect_code(
    text: str, *, home: str, variables: Mapping[str, str]
) -> Iterator[Nested | Hazard]:
    """The commands that calls in the code amount to, and what it does besides. `variables` are
    those of the shell."""
    text = _HOMES.sub(lambda match: f'"{match[2] or "~"}"', text)
    if "env" in text or "ENV" in text:
        text = _ENVIRONMENT.sub(lambda match: _variable_literal(match, variables), text)
    text = _normalise_calls(text)
    named = _named_literals(text)
    yield from _code_hazards(text)
    for match in _RUNS.finditer(text):
        words = _arguments(text, match.end()) or _argument_by_name(text, match.end(), named)
        if _DECODES.search(text[match.end() : match.end() + _NEARBY].partition("\n")[0]):
            yield Hazard.HIDDEN_CODE
        if words:
            if len(words) > 1 and _EXECUTES_ITSELF.match(match[0]):
                del words[1]  # what it will be called
            yield NestedScript(text=_command(words), part=match[0] + " ".join(words))
    for match in _BACKTICKS.finditer(text):
        yield NestedScript(text=next(filter(None, match.groups())), part=match[0])
    for pattern, option in ((_DELETES, "-rf"), (_REMOVES, "-f")):
        for match in pattern.finditer(text):
            paths = _arguments(text, match.end())
            if paths and not _is_continued(text, match.end()):
                yield NestedCommand(words=("rm", option, "--", _expand_home(paths[0], home)))
    if _ANY_DELETION.search(text):
        for path in _walked(text, named):
            yield NestedCommand(words=("rm", "-f", "--", _expand_home(path, home)))
    yield from _file_commands(text, home)


def _is_continued(text: str, start: int) -> bool:
    """Whether the first literal of a call continues something: `folder + "/" + name`."""
    literal = _LITERAL.search(text, start)
    return literal is not None and "+" in text[start : literal.start()]


def _variable_literal(match: re.Match[str], variables: Mapping[str, str]) -> str:
    value = variables.get(match[1])
    return match[0] if value is None or match[1] == "HOME" else json.dumps(value)


def _walked(text: str, named: dict[str, str]) -> Iterator[str]:
    """The folders whose content a loop goes through."""
    for match in _WALKS.finditer(text):
        literal = _LITERAL.match(text, match.end())
        if literal is not None:
            yield _unquoted(literal)
        else:
            yield from _argument_by_name(text, match.end(), named)
    for match in _WALKED_PATHS.finditer(text):
        yield match[2]


def _normalise_calls(text: str) -> str:
    """The code with each call under its usual name."""
    text = _JOINED.sub("", text)
    text = _BY_TEXT.sub(lambda match: "." + (match[1] or match[2]), text)
    for match in islice(_ALIASES.finditer(text), _MAX_ALIASES):
        known, alias = match[1] or match[4], match[2] or match[3]
        text = re.sub(rf"(?<![\w.])\$?{alias}\s*\(", f"{known}(", text)
    return text


def _named_literals(text: str) -> dict[str, str]:
    """String literals that are assigned to a name."""
    found = ((match, _LITERAL.match(text, match.end())) for match in _NAMED.finditer(text))
    return {match[1]: _unquoted(literal) for match, literal in found if literal is not None}


def _argument_by_name(text: str, start: int, named: dict[str, str]) -> list[str]:
    match = re.compile(r"\$?(\w+)").match(text, start)
    return [named[match[1]]] if match is not None and match[1] in named else []


def _code_hazards(text: str) -> Iterator[Hazard]:
    if _FORKS.search(text):
        yield Hazard.FORK_BOMB
    if _EVALUATES.search(text):
        if _NETWORK.search(text):
            yield Hazard.NETWORK_CODE
        if _DECODES.search(text) and "json" not in text:
            yield Hazard.HIDDEN_CODE
    if (_CONNECTS.search(text) and _SPAWNS_SHELL.search(text)) or _CONNECTS_BY_PATH.search(text):
        yield Hazard.REMOTE_SHELL
    if _sends_files(text):
        yield Hazard.SENT_FILES
    if _NETWORK.search(text) and _runs_what_it_wrote(text):
        yield Hazard.NETWORK_CODE


def _sends_files(text: str) -> bool:
    """Whether it reads files or all settings, and sends something to another machine."""
    sends = _SENDS.search(text) is not None
    if not sends and (_ASKS.search(text) is None or _PASSES.search(text) is None):
        return False
    if _SENDS_NAMED_FILE.search(text) is None and _GATHERS.search(text) is None:
        return False
    hosts = [match[1] or match[2] for match in _HOSTS.finditer(text)]
    return not hosts or not all(_LOOPBACK.fullmatch(host) for host in hosts)


def _runs_what_it_wrote(text: str) -> bool:
    """Whether one of its commands names a file that it writes."""
    written = [
        _unquoted(literal)
        for match in _WRITES.finditer(text)
        if (literal := _LITERAL.match(text, match.end())) is not None
    ]
    written += [
        _unquoted(literal)
        for match in re.finditer(r"urlretrieve\([^,\n]{0,400},\s*", text)
        if (literal := _LITERAL.match(text, match.end())) is not None
    ]
    commands = [" ".join(_arguments(text, match.end())) for match in _RUNS.finditer(text)]
    return any(path and path in command for path in written for command in commands)


def _file_commands(text: str, home: str) -> Iterator[Nested]:
    for match in _WRITES.finditer(text):
        literal = _LITERAL.match(text, match.end())
        if literal is None:
            continue
        mode = _MODE.match(text[literal.end() : literal.end() + 40])
        reading = match[0].startswith("open") and (mode is None or set(mode[1]) <= set("rbt"))
        path = _expand_home(_unquoted(literal), home)
        yield NestedCommand(words=("cat" if reading else "tee", path))
    for match in _READS.finditer(text):
        if (literal := _LITERAL.match(text, match.end())) is not None:
            yield NestedCommand(words=("cat", _expand_home(_unquoted(literal), home)))
    for match in _PATHS.finditer(text):
        verb = {"u": "rm", "w": "tee", "r": "cat"}[match[3][0]]
        yield NestedCommand(words=(verb, _expand_home(match[2], home)))


def _arguments(text: str, start: int) -> list[str]:
    """The literals of a call, up to where it ends."""
    reach = text[start : start + _MAX_ARGUMENTS_LENGTH]
    words, at = [], 0
    while at < len(reach):
        literal = _LITERAL.search(reach, at)
        gap = reach[at : literal.start()] if literal else reach[at:]
        if literal is None or re.search(r"[);\n\]]", gap):
            break
        words.append(_unquoted(literal))
        at = literal.end()
    return words


def _unquoted(literal: re.Match[str]) -> str:
    text = next((group for group in literal.groups() if group is not None), "")
    return re.sub(r"\\(['\"\\`$])", r"\1", text)


def _command(words: list[str]) -> str:
    """The command of a call: one literal is a script, several are the words of one command."""
    if len(words) == 1:
        return words[0]
    if words[0] in ("sh", "bash", "/bin/sh", "/bin/bash") and "-c" in words[1:2]:
        return words[-1]
    return " ".join(words)


def _expand_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
