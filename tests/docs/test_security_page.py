"""docs/security.md: each attack that it lists is a test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_attack_of_the_table_is_a_test() -> None:
    table = PAGE.partition("## How it was attacked")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert rows
    for row in rows:
        found = re.search(r"`(tests/[\w/]+\.py)` `(test_\w+)` \|$", row)
        assert found, f"names no test: {row}"
        file = ROOT / found[1]
        assert file.is_file(), found[1]
        assert re.search(rf"^(async )?def {found[2]}\(", file.read_text(), re.MULTILINE), found[2]


def test_every_risk_of_both_lists_is_answered() -> None:
    for prefix in ("LLM", "ASI"):
        found = re.findall(rf"^\| {prefix}(\d\d) .+ \| .+ \|$", PAGE, re.MULTILINE)
        assert found == [f"{n:02}" for n in range(1, 11)]
