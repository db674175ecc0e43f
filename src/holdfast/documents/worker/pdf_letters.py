"""The letters of a PDF that are known by name (https://github.com/adobe-type-tools/agl-aglfn)."""

import unicodedata

# Letters that are drawn as one and read as several.
LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl"}
_LIGATURE_NAMES = frozenset(LIGATURES.values())
# Of Adobe's list, the names that texts are made of; those of letters with accents are put together.
_NAMES = """
space=0020 nbspace=0020 exclam=0021 quotedbl=0022 numbersign=0023 dollar=0024 percent=0025
ampersand=0026 quotesingle=0027 parenleft=0028 parenright=0029 asterisk=002a plus=002b
comma=002c hyphen=002d minus=002d period=002e slash=002f colon=003a semicolon=003b less=003c
equal=003d greater=003e question=003f at=0040 bracketleft=005b backslash=005c bracketright=005d
asciicircum=005e underscore=005f grave=0060 braceleft=007b bar=007c braceright=007d
asciitilde=007e zero=0030 one=0031 two=0032 three=0033 four=0034 five=0035 six=0036 seven=0037
eight=0038 nine=0039 endash=2013 emdash=2014 bullet=2022 quoteleft=2018 quoteright=2019
quotedblleft=201c quotedblright=201d quotesinglbase=201a quotedblbase=201e guillemotleft=00ab
guillemotright=00bb ellipsis=2026 dagger=2020 daggerdbl=2021 section=00a7 paragraph=00b6
copyright=00a9 registered=00ae trademark=2122 degree=00b0 plusminus=00b1 multiply=00d7
divide=00f7 Euro=20ac sterling=00a3 yen=00a5 cent=00a2 germandbls=00df ae=00e6 AE=00c6 oe=0153
OE=0152 oslash=00f8 Oslash=00d8 dotlessi=0131 lslash=0142 Lslash=0141 eth=00f0 thorn=00fe
mu=00b5 Omega=03a9 alpha=03b1 beta=03b2 gamma=03b3 delta=03b4 epsilon=03b5 lambda=03bb pi=03c0
sigma=03c3 tau=03c4 phi=03c6 exclamdown=00a1 questiondown=00bf periodcentered=00b7 fraction=2044
"""
_NAMED = {name: chr(int(code, 16)) for name, code in (each.split("=") for each in _NAMES.split())}
_ACCENTS = {
    **{"grave": "\u0300", "acute": "\u0301", "circumflex": "\u0302", "tilde": "\u0303"},
    **{"macron": "\u0304", "breve": "\u0306", "dotaccent": "\u0307", "dieresis": "\u0308"},
    **{"ring": "\u030a", "hungarumlaut": "\u030b", "caron": "\u030c", "cedilla": "\u0327"},
    **{"ogonek": "\u0328"},
}


def character_named(name: str) -> str:
    """The letter of a name of Adobe's list; "": nobody knows."""
    name = name.partition(".")[0]
    if len(name) == 1 or name in _LIGATURE_NAMES:
        return name
    if name in _NAMED:
        return _NAMED[name]
    digits = name.removeprefix("uni") if name.startswith("uni") else name.removeprefix("u")
    if digits != name and 4 <= len(digits) <= 6:
        return _from_hex(digits)
    if name[1:] in _ACCENTS:
        return unicodedata.normalize("NFC", name[0] + _ACCENTS[name[1:]])
    return ""


def _from_hex(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except (ValueError, OverflowError):
        return ""
