"""Tests that the modules of a platform that is not enabled are not imported."""

import json
import subprocess
import sys
from pathlib import Path

from holdfast.config.platforms import BUILT_IN_PLUGINS

ALWAYS_OPEN = ("api", "web")
LIBRARIES = ("discord", "slack_sdk", "nio", "slixmpp", "aiosmtplib", "imap_tools", "olm")
SCRIPT = """
import json, sys
from pathlib import Path
import holdfast.service.main
from holdfast.config import load
from holdfast.service.platforms import open_platforms
from holdfast.system.clock import SystemClock

home = Path(sys.argv[1])
seen = []
for text in ("", "".join(f"[platforms.{name}]\\nenabled = false\\n" for name in sys.argv[2:])):
    (home / "holdfast.toml").write_text(text)
    config = load(home, {})
    opened = list(open_platforms(config, clock=SystemClock(), new_id=lambda prefix: prefix))
    assert opened == [], opened
    seen.append(sorted(sys.modules))
print(json.dumps(seen))
"""


def test_a_platform_that_is_not_enabled_is_not_imported(tmp_path: Path) -> None:
    """Without a table not even its settings; with one that is switched off, those alone."""
    names = [name for name in BUILT_IN_PLUGINS if name not in ALWAYS_OPEN]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *names],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unnamed, switched_off = json.loads(done.stdout)
    packages = tuple(BUILT_IN_PLUGINS[name].rpartition(".plugin")[0] for name in names)
    assert all(packages)
    assert [name for name in unnamed if name.startswith(packages)] == []
    for package in packages:
        assert f"{package}.plugin" in switched_off
        assert f"{package}.platform" not in switched_off
    assert set(LIBRARIES).isdisjoint(switched_off)
    # What a declaration imports is imported by every command that reads the settings.
    assert sum(name.startswith(packages) for name in switched_off) < 4 * len(names)
