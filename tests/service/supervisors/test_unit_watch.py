"""The cached drift of a unit in status: always of the current file, which is read seldom."""

import os
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.backend import program_caller
from holdfast.service.supervisors.installed_units import SupervisorBackends, UnitDriftCache


class CountingDriftCache(UnitDriftCache):
    read = 0

    def _refresh(self) -> None:
        self.read += 1
        super()._refresh()


def make_cache(tmp_path: Path) -> CountingDriftCache:
    environ = {"HOME": str(tmp_path), "PATH": "", "SYSTEMD_UNIT_PATH": str(tmp_path / "machine")}
    backends = SupervisorBackends(environ=environ, user_id=os.getuid(), run=program_caller(environ))
    return CountingDriftCache(tmp_path / ".holdfast", GatewaySettings(), backends=backends)


def write(unit: Path, seconds: int) -> None:
    text = f"[Service]\nExecStart=/bin/true\nTimeoutStopSec={seconds}\n"
    changed = unit.stat().st_mtime_ns + 1_000_000 if unit.exists() else None
    unit.write_text(text)
    if changed is not None:  # a clock may be too coarse to tell two writes apart
        os.utime(unit, ns=(changed, changed))


def test_a_unit_is_read_only_when_it_appears_changes_or_disappears(tmp_path: Path) -> None:
    """E2: a repaired unit counts at once."""
    cache = make_cache(tmp_path)
    assert cache.drift() == []
    unit = tmp_path / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    write(unit, 5)
    assert any("allows 5 s for a stop" in str(sentence) for sentence in cache.drift())
    read = cache.read
    for _ in range(3):
        assert any("allows 5 s for a stop" in str(sentence) for sentence in cache.drift())
    assert cache.read == read
    write(unit, 500)
    assert not any("for a stop" in str(sentence) for sentence in cache.drift())
    override = unit.with_name("holdfast.service.d") / "override.conf"
    override.parent.mkdir()
    write(override, 500)
    assert not any("for a stop" in str(sentence) for sentence in cache.drift())
    write(override, 7)
    assert any("allows 7 s for a stop" in str(sentence) for sentence in cache.drift())
    unit.unlink()
    assert cache.drift() == []
