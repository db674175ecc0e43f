"""A command that runs until its test releases it, so that no test depends on timing."""

import json

from holdfast.system.paths import Paths

HELD_COMMAND = "until test -e go; do sleep 0.05; done"
HELD_CALL = f"[tool terminal {json.dumps({'command': HELD_COMMAND})}]"  # for the scripted model


def release(paths: Paths, session_id: str) -> None:
    """End the held commands in the workspace of this session; later ones end at once."""
    workspace = paths.workspaces / session_id
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)  # a call may not be so far yet
    (workspace / "go").touch()
