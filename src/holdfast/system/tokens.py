"""The API's bearer token: created once, in a file that only its owner can read."""

import os
import secrets
import tempfile
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.secrets import Secret
from holdfast.system.paths import Paths, private_dir


def api_token(paths: Paths, *, configured: Secret | None = None) -> Secret:
    """The configured token, else the one of this home, created if it does not exist.

    Two processes that create it at once get the same one; a crash leaves no incomplete file.
    """
    if configured is not None:
        return configured
    if not paths.api_token.exists():
        _create(paths.api_token, "hf_" + secrets.token_urlsafe(32))
    paths.api_token.chmod(0o600)
    token = paths.api_token.read_text().strip()
    if not token:
        raise HoldfastError(
            "{file} is empty. Remove it, and a new token is created", file=paths.api_token
        )
    return Secret(token)


def _create(path: Path, token: str) -> None:
    fd, draft = tempfile.mkstemp(dir=private_dir(path.parent), prefix=f".{path.name}.")
    with open(fd, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(fd)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was faster: its token counts
    finally:
        os.unlink(draft)
