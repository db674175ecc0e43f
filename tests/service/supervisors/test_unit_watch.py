"""The drift of a unit as status tells it: always what the file says now, seldom read."""

import os
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.backend import program_caller
from holdfast.service.supervisors.installed_units import SupervisorBackends, UnitDriftCache


class Counting(UnitDriftCache):
    read = 0

    def _refresh(self) -> None:
        self.read += 1
        super()._refresh()


def watch(tmp_path: Path) -> Counting:
    environ = {"HOME": str(tmp_path), "PATH": "", "SYSTEMD_UNIT_PATH": str(tmp_path / "machine")}
    where = SupervisorBackends(environ=environ, user_id=os.getuid(), run=program_caller(environ))
    return Counting(tmp_path / ".holdfast", GatewaySettings(), backends=where)


def write(unit: Path, seconds: int) -> None:
    text = f"[Service]\nExecStart=/bin/true\nTimeoutStopSec={seconds}\n"
    changed = unit.stat().st_mtime_ns + 1_000_000 if unit.exists() else None
    unit.write_text(text)
    if changed is not None:  # a clock may be too coarse to tell two writes apart
        os.utime(unit, ns=(changed, changed))


def test_a_unit_is_read_only_when_it_appears_changes_or_disappears(tmp_path: Path) -> None:
    """E2: what was mended is believed at once."""
    watched = watch(tmp_path)
    assert watched.drift() == []
    unit = tmp_path / ".config/systemd/user/holdfast.service"
    unit.parent.mkdir(parents=True)
    write(unit, 5)
    assert any("gives a stop 5 s" in told for told in watched.drift())
    read = watched.read
    for _ in range(3):
        assert any("gives a stop 5 s" in told for told in watched.drift())
    assert watched.read == read
    write(unit, 500)
    assert not any("gives a stop" in told for told in watched.drift())
    over = unit.with_name("holdfast.service.d") / "override.conf"
    over.parent.mkdir()
    write(over, 500)
    assert not any("gives a stop" in told for told in watched.drift())
    write(over, 7)
    assert any("gives a stop 7 s" in told for told in watched.drift())
    unit.unlink()
    assert watched.drift() == []
