"""Interpreters: shells and languages, and where the text is that they are given to run."""

from collections.abc import Iterator

import msgspec

from holdfast.tools.shell.inner import Code, Inner, Script
from holdfast.tools.shell.options import read_options
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "tcsh", "csh", "pwsh")
)
STDIN = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))


class Language(msgspec.Struct, frozen=True, kw_only=True):
    inline: str  # short options whose value is code
    longs: tuple[str, ...] = ()
    valued: str = ""  # short options with another value
    modules: str = ""  # short options that make the rest no script at all


INTERPRETERS: dict[str, Language] = {
    "python": Language(inline="c", valued="WX", modules="m"),
    "pypy": Language(inline="c", valued="WX", modules="m"),
    "ipython": Language(inline="c", modules="m"),
    "perl": Language(inline="eE", valued="IMm"),
    "ruby": Language(inline="e", valued="Ir"),
    "node": Language(inline="ep", longs=("eval", "print"), valued="r"),
    "nodejs": Language(inline="ep", longs=("eval", "print"), valued="r"),
    "bun": Language(inline="e", longs=("eval",)),
    "deno": Language(inline=""),
    "php": Language(inline="r", longs=("run",), valued="dc"),
    "lua": Language(inline="e", valued="l"),
    "luajit": Language(inline="e", valued="l"),
    "Rscript": Language(inline="e"),
    "osascript": Language(inline="e"),
    "julia": Language(inline="eE", longs=("eval",)),
    "tclsh": Language(inline=""),
    "groovy": Language(inline="e"),
}


def script_of(run: Run, shell: Shell) -> Iterator[Inner]:
    """What a shell reads: the value of -c, a file, or its input."""
    options = read_options(
        [word for word in run.args if not (word.startswith("+") and len(word) > 1)],
        valued="oO",
        valued_longs=("rcfile", "init-file"),
        mixed=False,
    )
    operands = options.operands
    for name, path in options.longs:
        if name in ("rcfile", "init-file") and path:
            yield from _held(path, run, shell)
    if options.has("c", "command"):
        text = operands[0] if operands else ""
        yield Script(text=text, part=run.said, arguments=operands[2:], given=True)
    elif operands and not options.has("s") and operands[0] not in STDIN:
        yield from _held(operands[0], run, shell)
    elif run.stdin:
        yield Script(text=run.stdin, part=run.said, arguments=operands)


def _held(path: str, run: Run, shell: Shell) -> Iterator[Inner]:
    held = shell.files.get(run.place.resolve(path))
    if held is not None:
        yield Script(text=held, part=run.said, arguments=())


def code_of(run: Run, shell: Shell, language: Language) -> Iterator[Inner]:
    options = run.options(
        language.inline + language.valued + language.modules, language.longs, mixed=False
    )
    inline = [value for name, value in options.values if name in language.inline]
    inline += [value for name, value in options.longs if name in language.longs]
    for text in inline:
        yield Code(text=text, part=run.said)
    if inline or any(name in language.modules for name, _ in options.values):
        return
    operands = options.operands
    if operands[:1] == ("eval",) and run.program in ("deno", "bun"):
        yield Code(text=" ".join(operands[1:]), part=run.said)
    elif operands and operands[0] not in STDIN:
        held = shell.files.get(run.place.resolve(operands[0]))
        if held is not None:
            yield Code(text=held, part=run.said)
    elif run.stdin:
        yield Code(text=run.stdin, part=run.said)
