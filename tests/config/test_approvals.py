"""`[approvals]`: the approvers that are accepted, and the error for a wrong one."""

from pathlib import Path

import pytest

from holdfast.config import ConfigError, load
from holdfast.core.config.settings import ApprovalMode


def test_people_and_the_requester_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        '[approvals]\nmode = "refuse"\napprovers = ["requester", "simulated:default:a:b"]\n'
    )
    approvals = load(tmp_path, {}).settings.approvals
    assert approvals.mode is ApprovalMode.REFUSE
    assert approvals.approvers == ("requester", "simulated:default:a:b")


@pytest.mark.parametrize("name", ["ann", "requestor", "nowhere:default:ann", "simulated::ann", ""])
def test_an_approver_who_cannot_be_asked_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[approvals]\napprovers = ["requester", "{name}"]\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert "approvals.approvers" in str(caught.value)
    assert 'a person as "platform:account:user"' in str(caught.value)


@pytest.mark.parametrize("timeout", ["0", "-1", "nan"])
def test_an_approval_timeout_has_a_minimum(tmp_path: Path, timeout: str) -> None:
    (tmp_path / "holdfast.toml").write_text(f"[approvals]\ntimeout = {timeout}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {})
    assert "approvals.timeout" in str(caught.value)
