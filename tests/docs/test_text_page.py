"""docs/text.md: its renderers, table and example are the real ones."""

import re
from importlib import import_module
from pathlib import Path

from holdfast.platforms.text.layout import draw_table

PAGE = (Path(__file__).parents[2] / "docs" / "text.md").read_text(encoding="utf-8")


def test_every_renderer_that_the_page_names_exists() -> None:
    (named,) = re.findall(r"^The renderers are (.+?)\. Those", PAGE, re.MULTILINE)
    names = re.findall(r"`(\w+)\.(\w+)`", named)
    assert len(names) == 8
    for module_name, function in names:
        module = import_module(f"holdfast.platforms.text.{module_name}")
        assert vars(module)[function]("words"), module_name


def test_a_table_is_drawn_as_the_page_draws_it() -> None:
    assert draw_table([["step", "s"], ["build", "29"], ["test", "12"]]) in PAGE


def test_the_example_for_platforms_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/text.md", "exec"), {})
