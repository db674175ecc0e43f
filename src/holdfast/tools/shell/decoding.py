"""Decoding: what programs print that take an encoding away, or put one on."""

import base64
import binascii
import re
from collections.abc import Callable

from holdfast.tools.shell.markers import CODED, READ, UNKNOWN, bare, cleaned, marks_of
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell


def _base64(run: Run, shell: Shell) -> str | None:
    options = run.options("w")
    if not options.has("dD", "decode"):
        return marks_of(run.stdin) + (READ if options.operands else "") or UNKNOWN
    return CODED + _decoded(_given(run, shell), _from_base64)


def _xxd(run: Run, shell: Shell) -> str | None:
    if not run.options("cglos").has("r", "revert"):
        return None
    return CODED + _decoded(run.stdin, lambda text: bytes.fromhex("".join(text.split())))


def _decoded(text: str, decode: Callable[[str], bytes]) -> str:
    known = bare(text)
    try:
        return (
            cleaned(decode(known).decode(errors="replace"))
            if known.strip()
            else marks_of(text) + UNKNOWN
        )
    except (binascii.Error, ValueError):
        return marks_of(text) + UNKNOWN


def _from_base64(text: str) -> bytes:
    text = "".join(text.split())
    return base64.b64decode(text + "=" * (-len(text) % 4))


def _openssl(run: Run, shell: Shell) -> str | None:
    if "-d" not in run.args:
        return None
    return CODED + _decoded(run.stdin, _from_base64)


def _unpack(run: Run, shell: Shell) -> str | None:
    if run.program == "gzip" and not run.options().has("d", "decompress"):
        return None
    return CODED + marks_of(run.stdin) + UNKNOWN


def _rev(run: Run, shell: Shell) -> str:
    return CODED + "\n".join(line[::-1] for line in run.stdin.split("\n"))


def _tr(run: Run, shell: Shell) -> str | None:
    operands = run.options().operands
    text = bare(run.stdin)
    if len(operands) == 1 and run.options().has("d", "delete"):
        return CODED + "".join(letter for letter in run.stdin if letter not in operands[0])
    if len(operands) != 2 or not text.strip():
        return None
    table = dict(zip(_letters(operands[0]), _letters(operands[1]), strict=False))
    return CODED + "".join(table.get(letter, letter) for letter in run.stdin)


def _letters(given: str) -> str:
    given = given.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z")
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), given)


def _given(run: Run, shell: Shell) -> str:
    operands = run.options("w").operands
    if not operands or operands == ("-",):
        return run.stdin
    return "".join(shell.files.get(run.place.resolve(path), READ) for path in operands)


DECODERS: dict[str, Callable[[Run, Shell], str | None]] = {
    "base64": _base64,
    "base32": lambda run, shell: CODED + UNKNOWN if run.options().has("d", "decode") else None,
    "xxd": _xxd,
    "openssl": _openssl,
    "gunzip": _unpack,
    "zcat": _unpack,
    "gzip": _unpack,
    "bunzip2": _unpack,
    "xz": _unpack,
    "rev": _rev,
    "tr": _tr,
}
