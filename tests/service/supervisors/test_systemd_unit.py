"""Units for systemd: what is written is what systemd reads, whatever a home is called."""

import ctypes
import math
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors import systemd_unit
from holdfast.service.supervisors import systemd_unit as systemd_words
from holdfast.service.supervisors import systemd_unit as unit_file
from holdfast.service.supervisors.launchd import parse_plist, render_plist
from holdfast.service.supervisors.unit import Unit, UnitScope, stop_seconds_needed, unit_name

NEWEST, OLD = 257, 252
PROGRAM = "/usr/bin/env"
UNIT = Unit(
    name="holdfast",
    scope=UnitScope.USER,
    home=Path("/home/ann/.holdfast"),
    program=(PROGRAM,),
    stop_seconds=90,
)
LIBRARY = Path("/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so")
CUNESCAPE_UNQUOTE = 1 << 1 | 1 << 5

# Everything that a path can have and a unit can keep.
paths = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1)
    .map(lambda text: "/srv/" + text.replace("/", "-") + "x")
    .map(Path)
)
awkward = st.sampled_from(list(" \"'\\%$;#=@-ü日")).map(str)
homes = st.one_of(
    paths, st.lists(awkward, min_size=1).map(lambda some: Path(f"/a/{''.join(some)}z"))
)


def unit(**changes: object) -> Unit:
    return msgspec.structs.replace(UNIT, **changes)


def verified(text: str, folder: Path, *, user: bool = False) -> str:
    """What the real systemd-analyze has to say against a unit."""
    file = folder / "holdfast.service"
    file.write_text(text)
    (folder / "run").mkdir(exist_ok=True)
    done = subprocess.run(
        ["systemd-analyze", *(["--user"] if user else []), "verify", file],
        env={"XDG_RUNTIME_DIR": str(folder / "run"), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr + ("" if done.returncode == 0 else f"ended with {done.returncode}")


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@settings(deadline=None)
@given(home=homes, version=st.sampled_from([OLD, NEWEST]), scope=st.sampled_from(UnitScope))
def test_any_home_is_read_back_as_it_was_written(
    home: Path, version: int, scope: UnitScope
) -> None:
    """Spaces, quotes, `%`, `$`, backslashes, other alphabets: the same home comes out again."""
    written = unit(home=home, scope=scope)
    text = systemd_unit.render_unit(written, version=version)
    assert unit_file.parse_command(text) == list(written.command)
    assert unit_file.parse_home(text) == home
    folder = (unit_file.get_value(text, "WorkingDirectory") or "").removeprefix("-")
    assert folder.replace("%%", "%") == str(home)
    assert unit_file.parse_environment(text)["HOLDFAST_UNIT"] == "holdfast.service"


@settings(deadline=None)
@given(program=homes)
def test_any_program_is_read_back_as_it_was_written(program: Path) -> None:
    """Also one whose name systemd itself would not take."""
    written = unit(program=(str(program), "-m", "holdfast.cli"))
    assert unit_file.parse_command(systemd_unit.render_unit(written, version=OLD)) == list(
        written.command
    )


@pytest.mark.skipif(not LIBRARY.exists(), reason="systemd 252's library is not here")
@settings(deadline=None)
@given(words=st.lists(homes.map(str), min_size=1, max_size=4))
def test_systemd_splits_our_command_line_as_we_do(words: list[str]) -> None:
    line = " ".join(systemd_words.quote(word) for word in words)
    found = [word.replace("%%", "%") for word in _extracted(line)]
    assert found == words == systemd_words.split_words(line)


def _extracted(line: str) -> list[str]:
    extract = ctypes.CDLL(str(LIBRARY)).extract_first_word
    rest, word, words = ctypes.c_char_p(line.encode()), ctypes.c_char_p(), []
    while extract(ctypes.byref(rest), ctypes.byref(word), None, CUNESCAPE_UNQUOTE) > 0:
        assert word.value is not None
        words.append(word.value.decode())
    return words


@needs_systemd
@pytest.mark.parametrize("scope", UnitScope)
@pytest.mark.parametrize(
    "name",
    ["plain", "with space", "per%cent", "dol$lar", "quo\"te's", "back\\slash", "ümläut 日本"],
)
def test_the_real_systemd_finds_nothing_wrong(tmp_path: Path, name: str, scope: UnitScope) -> None:
    """The issue: units are checked with `systemd-analyze verify`."""
    program = tmp_path / name / "holdfast"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    user = "daemon" if scope is UnitScope.SYSTEM else ""
    written = unit(
        home=tmp_path / name, scope=scope, program=(str(program),), user=user, group=user
    )
    text = systemd_unit.render_unit(written, version=OLD)
    assert verified(text, tmp_path, user=scope is UnitScope.USER) == ""


@needs_systemd
def test_the_real_systemd_reports_an_invalid_unit(tmp_path: Path) -> None:
    """The check above can fail: a quote that is left open is found."""
    text = systemd_unit.render_unit(UNIT, version=OLD).replace("--home ", '--home "')
    assert "quoting" in verified(text, tmp_path)


@pytest.mark.parametrize("home", ["/srv/new\nline", "/srv/end ", "/srv/end\\", "/srv/\udcff"])
def test_a_home_path_that_no_unit_can_hold_is_refused(home: str) -> None:
    with pytest.raises(HoldfastError, match="Choose another --home"):
        systemd_unit.render_unit(unit(home=Path(home)), version=OLD)


def test_the_unit_has_the_lines_that_restart_and_stop_need() -> None:
    """E1: exit codes, readiness, the watchdog, the stored descriptors, and time to clean up."""
    text = systemd_unit.render_unit(UNIT, version=NEWEST)
    expected = {
        "Type": "notify",
        "NotifyAccess": "main",
        "Restart": "on-failure",
        "RestartForceExitStatus": "75",
        "RestartPreventExitStatus": "78",
        "TimeoutStopSec": "90",
        "WatchdogSec": "120",
        "KillMode": "mixed",
        "FileDescriptorStoreMax": "16",
        "StartLimitIntervalSec": "0",
        "OOMPolicy": "continue",
        "WantedBy": "default.target",
    }
    assert {key: unit_file.get_value(text, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("drain", "park", "needed"),
    [(0, 10, 90), (300, 10, 340), (50.5, 10, 90.5), (1e7, 10, 10000040)],
)
def test_a_stop_gets_the_time_it_may_need(drain: float, park: float, needed: float) -> None:
    """E1: TimeoutStopSec is max(90, drain + park + 30)."""
    settings = GatewaySettings(restart_drain_timeout=drain, park_timeout=park)
    assert stop_seconds_needed(settings) == needed
    text = systemd_unit.render_unit(unit(stop_seconds=needed), version=OLD)
    assert unit_file.parse_stop_seconds(text) == math.ceil(needed)


def test_a_drain_without_end_gives_a_stop_without_end() -> None:
    """E1."""
    needed = stop_seconds_needed(GatewaySettings(restart_drain_timeout=math.inf))
    text = systemd_unit.render_unit(unit(stop_seconds=needed), version=OLD)
    assert unit_file.parse_stop_seconds(text) == math.inf
    assert parse_plist(render_plist(unit(stop_seconds=needed)))["ExitTimeOut"] == 0


@pytest.mark.parametrize(
    ("version", "user", "waits"),
    [
        (NEWEST, "", {"RestartSec": "1", "RestartSteps": "8", "RestartMaxDelaySec": "60"}),
        (OLD, "", {"RestartSec": "5"}),
        (NEWEST, "bot", {"RestartSec": "2"}),
    ],
)
def test_failing_starts_back_off_as_far_as_the_installed_systemd_allows(
    version: int, user: str, waits: dict[str, str]
) -> None:
    text = systemd_unit.render_unit(unit(user=user, scope=UnitScope.SYSTEM), version=version)
    keys = ("RestartSec", "RestartSteps", "RestartMaxDelaySec")
    found = {key: unit_file.get_value(text, key) for key in keys}
    assert found == {key: waits.get(key) for key in keys}


def test_a_system_unit_has_a_user_a_state_directory_and_waits_for_the_network() -> None:
    text = systemd_unit.render_unit(
        unit(scope=UnitScope.SYSTEM, home=Path("/var/lib/holdfast"), user="bot", group="bots"),
        version=OLD,
    )
    keys = ("User", "Group", "StateDirectory", "After", "WantedBy", "ProtectSystem")
    assert [unit_file.get_value(text, key) for key in keys] == [
        "bot",
        "bots",
        "holdfast",
        "network-online.target",
        "multi-user.target",
        "full",
    ]


def test_the_unit_has_no_option_that_breaks_bubblewrap() -> None:
    """Namespaces, mounts, /proc and the host's name are what a sandbox is made of."""
    text = systemd_unit.render_unit(unit(scope=UnitScope.SYSTEM), version=NEWEST)
    breaking = (
        "RestrictNamespaces",
        "SystemCallFilter",
        "ProtectProc",
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProtectHostname",
        "PrivateUsers",
        "PrivateTmp",
        "MemoryDenyWriteExecute",
    )
    assert [key for key in breaking if unit_file.get_value(text, key) is not None] == []
    setuid = systemd_unit.render_unit(unit(confined=False), version=NEWEST)
    assert unit_file.get_value(setuid, "NoNewPrivileges") is None


CONFINED = """
for folder in /usr /etc; do mount --bind $folder $folder && mount -o remount,ro,bind $folder; done
exec setpriv --no-new-privs --reuid 65534 --regid 65534 --clear-groups bwrap --unshare-user \\
    --unshare-pid --unshare-uts --hostname holdfast --ro-bind /usr /usr --symlink usr/lib /lib \\
    --symlink usr/lib64 /lib64 --symlink usr/bin /bin --proc /proc --dev /dev --tmpfs /tmp \\
    --remount-ro / /bin/echo confined
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or any(map(lambda name: shutil.which(name) is None, ("bwrap", "setpriv"))),
    reason="needs root, bubblewrap and setpriv",
)
def test_bubblewrap_works_under_the_options_of_the_unit() -> None:
    """ProtectSystem=full and NoNewPrivileges=yes, made by hand around an unprivileged user."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", CONFINED], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"this machine does not allow mounts: {done.stderr}")
    assert done.stdout == "confined\n", done.stderr


@pytest.mark.parametrize(
    ("home", "requested", "name"),
    [
        ("/home/ann/.holdfast", "", "holdfast"),
        ("/srv/bot", "", "holdfast-bot"),
        ("/srv/my bot!", "", "holdfast-my-bot"),
        ("/srv/bot", "family", "holdfast-family"),
        ("/srv/bot", "holdfast-family.service", "holdfast-family"),
    ],
)
def test_each_home_has_a_unit_of_its_own(home: str, requested: str, name: str) -> None:
    usual = [Path("/home/ann/.holdfast")]
    assert unit_name(Path(home), default_homes=usual, requested=requested) == name


def test_homes_without_a_letter_have_different_units_too() -> None:
    names = {unit_name(Path(home), default_homes=[]) for home in ("/srv/日", "/srv/本")}
    assert len(names) == 2


@pytest.mark.parametrize("requested", ["a b", "a/b", "-", "x" * 100])
def test_an_invalid_unit_name_is_refused(requested: str) -> None:
    with pytest.raises(HoldfastError, match="--name"):
        unit_name(Path("/srv/bot"), default_homes=[], requested=requested)
