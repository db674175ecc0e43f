"""Editing a TOML text changes the given keys and nothing else."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.toml_edit import UnpatchableToml, format_value, patch_toml

FILE = """\
# mine
gateway.port = 9000  # not 8787

[agent]
instructions = \"\"\"
[model]  # no header
name = "no key"
\"\"\"
toolsets = [
    "terminal",  # the shell, with ] in a comment
    'files',
]

# who answers
[model]
name = 'small'   # for now
[[model.fallbacks]]
provider = "demo"

[prices."gpt-4.1"]
input = 2
output = 8
[prices]
mini = { input = 1, output = 2 }
"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("gateway", "port"), 80, "port = 9000  #", "port = 80  #"),
        (("gateway", "host"), "::1", "8787\n", '8787\ngateway.host = "::1"\n'),
        (("gateway", "port"), None, "gateway.port = 9000  # not 8787\n", ""),
        (("model", "name"), "big", "'small'   # for", '"big"   # for'),
        (("model", "retries"), 2, "for now\n", "for now\nretries = 2\n"),
        (("agent", "max_steps"), 5, "]\n\n# who", "]\nmax_steps = 5\n\n# who"),
        (
            ("agent", "instructions"),
            "a\nb\n",
            '\n[model]  # no header\nname = "no key"\n',
            "\na\nb\n",
        ),
        (("prices", "gpt-4.1", "cached"), 0.5, "output = 8\n", "output = 8\ncached = 0.5\n"),
        (("prices", "mini", "input"), 3.5, "input = 1,", "input = 3.5,"),
        (("prices", "mini", "cached"), 0, "output = 2 }", "output = 2, cached = 0 }"),
        (("prices", "gpt-4.1"), None, '[prices."gpt-4.1"]\ninput = 2\noutput = 8\n', ""),
        (("prices", "mini"), None, "mini = { input = 1, output = 2 }\n", ""),
        (("log", "level"), "debug", "2 }\n", '2 }\n\n[log]\nlevel = "debug"\n'),
        (
            ("prices", "a b", "input"),
            1,
            "2 }\n",
            '2 }\n\n[prices."a b"]\ninput = 1\n',
        ),
        (
            ("agent", "toolsets"),
            ["web"],
            "[\n    \"terminal\",  # the shell, with ] in a comment\n    'files',\n]",
            '["web"]',
        ),
    ],
)
def test_one_key_changes_and_every_other_line_stays(
    path: tuple[str, ...], value: Any, old: str, new: str
) -> None:
    assert FILE.count(old) == 1
    assert patch_toml(FILE, {path: value}) == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("no TOML\n", ("model", "name")),
        ('model = "demo"\n', ("model", "name")),
        ('[[model]]\nname = "x"\n', ("model", "name")),
        ('[model.name]\nx = "y"\n', ("model", "name")),
        ('[[model.fallbacks]]\nprovider = "demo"\n', ("model", "fallbacks")),
    ],
)
def test_a_change_that_is_not_safe_is_refused(text: str, path: tuple[str, ...]) -> None:
    with pytest.raises(UnpatchableToml, match="cannot be changed safely"):
        patch_toml(text, {path: ["a"]})


LISTED = """\
[model]
provider = "openai"

# when the first is away
[[model.fallbacks]]
provider = "anthropic"
name = "opus"  # dear

# and when [[both]] are
[[model.fallbacks]]
provider = "local"
base_url = "http://127.0.0.1:8080/v1"

[gateway]
port = 1
"""
OPUS = {"provider": "anthropic", "name": "opus"}
HERE = {"provider": "local", "base_url": "http://127.0.0.1:8080/v1"}


@pytest.mark.parametrize(
    ("tables", "old", "new"),
    [
        ([OPUS, HERE], "", ""),
        ([{**OPUS, "name": "haiku"}, HERE], '"opus"', '"haiku"'),
        ([OPUS, {"provider": "local"}], 'base_url = "http://127.0.0.1:8080/v1"\n', ""),
        (
            [OPUS, HERE, {"provider": "demo"}],
            '8080/v1"\n',
            '8080/v1"\n\n[[model.fallbacks]]\nprovider = "demo"\n',
        ),
        (
            [OPUS],
            """
# and when [[both]] are
[[model.fallbacks]]
provider = "local"
base_url = "http://127.0.0.1:8080/v1"
""",
            "",
        ),
    ],
)
def test_a_list_of_tables_is_set_and_those_that_stay_keep_their_lines(
    tables: list[dict[str, str]], old: str, new: str
) -> None:
    assert LISTED.count(old) == 1 or not old
    patched = patch_toml(LISTED, {("model", "fallbacks"): tables})
    assert patched == LISTED.replace(old, new)
    assert tomllib.loads(patched)["model"]["fallbacks"] == tables


def test_a_list_of_tables_is_reordered_created_and_removed() -> None:
    path = ("model", "fallbacks")
    turned = patch_toml(LISTED, {path: [HERE, OPUS]})
    assert tomllib.loads(turned)["model"]["fallbacks"] == [HERE, OPUS]
    assert 'name = "opus"  # dear' in turned and "# when the first is away" in turned
    none = patch_toml(LISTED, {path: None})
    assert "[[model" not in none and "[gateway]\nport = 1\n" in none
    empty = patch_toml(LISTED, {path: []})
    assert '[model]\nprovider = "openai"\nfallbacks = []\n' in empty and "[[model" not in empty
    begun = patch_toml("[model]\nname = 'x'\n[gateway]\nport = 1\n", {path: [OPUS]})
    assert begun == (
        '[model]\nname = \'x\'\n\n[[model.fallbacks]]\nprovider = "anthropic"\nname = "opus"\n\n'
        "[gateway]\nport = 1\n"
    )
    apart = (
        '[[model.fallbacks]]\nprovider = "demo"\n[log]\n[[model.fallbacks]]\nprovider = "demo"\n'
    )
    with pytest.raises(UnpatchableToml, match="cannot be changed safely"):
        patch_toml(apart, {path: [OPUS]})


NAMES = st.sampled_from(["a", "b", "c.d", "#e", ""])
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("ab\n\t\"'\\#]}=\x7fé", max_size=9),
    st.lists(st.text('a"\n]', max_size=3), max_size=3),
)


@settings(max_examples=60)
@given(
    tree=st.dictionaries(NAMES, st.dictionaries(NAMES, LEAVES, max_size=3), max_size=3),
    path=st.tuples(NAMES, NAMES),
    value=st.none() | LEAVES,
)
def test_every_value_that_is_set_is_read_back(
    tree: dict[str, dict[str, Any]], path: tuple[str, str], value: Any
) -> None:
    text = "".join(
        f"{format_value(name)} = {format_value(table)}\n" for name, table in tree.items()
    )
    other = "".join(
        f"[{format_value(name)}]\n"
        + "".join(f"{format_value(k)} = {format_value(v)}\n" for k, v in table.items())
        for name, table in tree.items()
    )
    for each in (text, other):
        said = tomllib.loads(patch_toml(each, {path: value}))
        assert said.get(path[0], {}).get(path[1]) == value
        rest = {name: {**table, path[1]: None} for name, table in tree.items() if name == path[0]}
        kept = {**tree, **rest}
        for name, table in kept.items():
            for key, held in table.items():
                assert held is None or said[name][key] == held
