"""Decoding: what programs print that take an encoding away, or put one on."""

import base64
import binascii
import re
from collections.abc import Callable

from holdfast.tools.shell.markers import (
    DECODED,
    FILE_CONTENT,
    UNKNOWN,
    markers_in,
    sanitise,
    strip_markers,
)
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState


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
