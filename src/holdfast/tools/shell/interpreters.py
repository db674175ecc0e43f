"""Interpreters: shells and languages, and where the text is that they are given to run."""

from collections.abc import Iterator

import msgspec

from holdfast.tools.shell.inner import Nested, NestedCode, NestedScript
from holdfast.tools.shell.options import parse_options
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState

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
    "tclsh": Interpreter(inline=""),
    "groovy": Interpreter(inline="e"),
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


def _script_file(path: str, run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    held = shell.files.get(run.paths.resolve(path))
    if held is not None:
        yield NestedScript(text=held, part=run.excerpt, arguments=())


def interpreter_code(
    run: ProgramCall, shell: ShellState, language: Interpreter
) -> Iterator[Nested]:
    options = run.options(
        language.inline + language.valued + language.modules, language.longs, mixed=False
    )
    inline = [value for name, value in options.values if name in language.inline]
    inline += [value for name, value in options.longs if name in language.longs]
    for text in inline:
        yield NestedCode(text=text, part=run.excerpt)
    if inline or any(name in language.modules for name, _ in options.values):
        return
    operands = options.operands
    if operands[:1] == ("eval",) and run.program in ("deno", "bun"):
        yield NestedCode(text=" ".join(operands[1:]), part=run.excerpt)
    elif operands and operands[0] not in STDIN_NAMES:
        held = shell.files.get(run.paths.resolve(operands[0]))
        if held is not None:
            yield NestedCode(text=held, part=run.excerpt)
    elif run.stdin:
        yield NestedCode(text=run.stdin, part=run.excerpt)
