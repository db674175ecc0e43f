"""A door costs nothing until it is enabled: neither its modules nor its libraries are imported."""

import json
import subprocess
import sys
from pathlib import Path

from holdfast.core.ports.platform_plugin import BUILT_IN_PLUGINS

HERE = ("api", "web")  # which are always open
LIBRARIES = ("discord", "slack_sdk", "nio", "slixmpp", "aiosmtplib", "imap_tools", "olm")
SCRIPT = """
import json, sys
from pathlib import Path
import holdfast.service.main
from holdfast.config import load
from holdfast.service.platforms import open_doors
from holdfast.system.clock import SystemClock

home = Path(sys.argv[1])
seen = []
for text in ("", "".join(f"[platforms.{name}]\\nenabled = false\\n" for name in sys.argv[2:])):
    (home / "holdfast.toml").write_text(text)
    config = load(home, {})
    opened = list(open_doors(config, clock=SystemClock(), new_id=lambda prefix: prefix))
    assert opened == [], opened
    seen.append(sorted(sys.modules))
print(json.dumps(seen))
"""


def test_a_door_that_is_not_enabled_is_not_imported(tmp_path: Path) -> None:
    """Without a table not even its settings; with one that is switched off, those alone."""
    doors = [name for name in BUILT_IN_PLUGINS if name not in HERE]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *doors],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unnamed, switched_off = json.loads(done.stdout)
    of_doors = tuple(f"holdfast.platforms.{name}" for name in doors)
    assert [name for name in unnamed if name.startswith(of_doors)] == []
    for name in doors:
        assert f"holdfast.platforms.{name}.door" in switched_off
        assert f"holdfast.platforms.{name}.platform" not in switched_off
    assert set(LIBRARIES).isdisjoint(switched_off)
    # What a declaration imports is imported by every command that reads the settings.
    assert sum(name.startswith(of_doors) for name in switched_off) < 4 * len(doors)
