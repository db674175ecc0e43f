"""Variables in .env are written so that they are read back, and other lines stay."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cli.common.config_files import set_env_variable
from holdfast.config.environment import read_dotenv
from holdfast.config.errors import ConfigError

VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=200)
@given(values=st.lists(st.tuples(st.sampled_from("ABC"), VALUES), max_size=4))
def test_a_value_that_was_set_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("home") / ".env"
    for name, value in values:
        set_env_variable(path, name, value)
    assert read_dotenv(path).values == dict(values)


def test_other_lines_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# the keys\n\nexport A=plain # said aside\nB=b # second\n\n# end")
    assert set_env_variable(path, "A", "a key")
    assert path.read_text() == "# the keys\n\nA='a key'\nB=b # second\n\n# end"
    assert set_env_variable(path, "C", "it's\n$x \\")
    assert path.read_text().endswith("# end\nC='it\\'s\n$x \\\\'\n")
    assert not set_env_variable(path, "B", "b")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_dollar_that_an_earlier_version_escaped_is_a_dollar(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text('A="it\'s \\$5"\n')
    assert read_dotenv(path).values == {"A": "it's $5"}


@pytest.mark.parametrize("line", ["no assignment", "A B=1", "A='open", '1A="x"'])
def test_a_line_that_is_no_assignment_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"A=1\n\n# a comment\n{line}\nC=3\n")
    with pytest.raises(ConfigError, match=r"\.env, line 4"):
        read_dotenv(path)
