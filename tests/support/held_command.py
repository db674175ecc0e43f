"""A command that runs until its test lets it go: no test has to be quicker than a clock."""

import json

from holdfast.system.paths import Paths

HELD_COMMAND = "until test -e go; do sleep 0.05; done"
HELD_CALL = f"[tool terminal {json.dumps({'command': HELD_COMMAND})}]"  # for the scripted model


def release(paths: Paths, session_id: str) -> None:
    """What is `SHUT` in the workspace of this session goes on; what comes to it later passes."""
    workspace = paths.workspaces / session_id
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)  # a call may not be so far yet
    (workspace / "go").touch()
