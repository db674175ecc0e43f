"""The packaged translation that suits a person best is found, loaded and used."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from babel.messages import Catalog
from babel.messages.mofile import write_mo

from holdfast.core.text.translation import ENGLISH, _, _n, use_catalogue
from holdfast.system.languages import (
    DOMAIN,
    PSEUDO_LOCALE,
    available_languages,
    catalogue_for,
    match_language,
)


def compile_catalogue(
    folder: Path, locale: str, texts: Mapping[str | tuple[str, str], str | tuple[str, ...]]
) -> None:
    catalogue = Catalog(locale=locale)
    for text, translation in texts.items():
        catalogue.add(text, translation)
    file = folder / locale / "LC_MESSAGES" / f"{DOMAIN}.mo"
    file.parent.mkdir(parents=True)
    with file.open("wb") as out:
        write_mo(out, catalogue)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = ("{n} file", "{n} files")
    compile_catalogue(
        tmp_path,
        "de",
        {"Nothing is running.": "Es läuft nichts.", files: ("{n} Datei", "{n} Dateien")},
    )
    compile_catalogue(tmp_path, "pl", {files: ("{n} plik", "{n} pliki", "{n} plików")})
    compile_catalogue(tmp_path, "pt_BR", {"Nothing is running.": "Nada em execução."})
    return tmp_path


def test_a_packaged_catalogue_translates_texts_and_plural_forms(folder: Path) -> None:
    with use_catalogue(catalogue_for("de", folder=folder)):
        assert _("Nothing is running.") == "Es läuft nichts."
        assert _("Not translated yet.") == "Not translated yet."
        counts = [_n("{n} file", "{n} files", n).format(n=n) for n in (1, 2)]
        assert counts == ["1 Datei", "2 Dateien"]
    with use_catalogue(catalogue_for("pl", folder=folder)):
        counts = [_n("{n} file", "{n} files", n).format(n=n) for n in (1, 3, 5, 22)]
        assert counts == ["1 plik", "3 pliki", "5 plików", "22 pliki"]


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("de_DE.UTF-8", "de"),
        ("DE-Latn-AT", "de"),
        ("pt_BR", "pt-BR"),
        ("pt-BR", "pt-BR"),
        ("pt", "pt-BR"),
        ("en-GB", "en"),
        ("C.UTF-8", "en"),
        ("en-XA", PSEUDO_LOCALE),
        ("fr", None),
        ("../de", None),
        ("d", None),
    ],
)
def test_a_tag_is_matched_to_a_packaged_language(
    folder: Path, tag: str, language: str | None
) -> None:
    assert match_language(tag, folder=folder) == language
    assert catalogue_for(tag, folder=folder).language == language or (
        language is None and catalogue_for(tag, folder=folder) is ENGLISH
    )


def test_the_first_tag_with_an_available_language_decides(folder: Path) -> None:
    assert catalogue_for(None, "", "fr", "de-CH", "pt", folder=folder).language == "de"
    assert catalogue_for("en", "de", folder=folder) is ENGLISH
    assert catalogue_for(folder=folder) is ENGLISH
    assert catalogue_for("de", folder=folder) is catalogue_for("de-AT", folder=folder)
    assert available_languages(folder=folder) == ("en", "de", "pl", "pt-BR", PSEUDO_LOCALE)


def test_the_pseudo_locale_marks_each_translated_text_and_keeps_its_placeholders() -> None:
    with use_catalogue(catalogue_for(PSEUDO_LOCALE)):
        text = _("Session {name} is not known.").format(name="s1")
        assert text == "⟦Session s1 is not known.⟧"
        assert _n("{n} file", "{n} files", 2).format(n=2) == "⟦2 files⟧"


def test_gettext_is_imported_only_for_a_packaged_language() -> None:
    code = (
        "import sys; from holdfast.system.languages import catalogue_for; "
        "before = 'gettext' in sys.modules; catalogue_for('en-US', 'en-XA'); "
        "sys.exit('gettext' in sys.modules and not before)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
