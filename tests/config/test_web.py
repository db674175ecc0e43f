"""`[web]`: the patterns of hosts that are accepted, and the error for a wrong one."""

from pathlib import Path

import pytest

from holdfast.config import ConfigError, load


def test_hosts_domains_and_addresses_may_be_named(tmp_path: Path) -> None:
    patterns = ["*", "example.org", "*.example.org", "192.0.2.1", "2001:db8::1", "bücher.example"]
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    (tmp_path / "holdfast.toml").write_text(f"[web]\nallow = [{listed}]\ndeny = [{listed}]\n")
    web = load(tmp_path, {}).settings.web
    assert (web.allow, web.deny) == (tuple(patterns), tuple(patterns))


@pytest.mark.parametrize(
    "pattern", ["", "https://example.org", "example.org/path", "*example.org", "a.*.org", "a b"]
)
def test_a_pattern_that_would_match_nothing_is_refused(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[web]\ndeny = ["example.org", "{pattern}"]\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert "web.deny[1]" in str(caught.value) and "pattern of hosts" in str(caught.value)
