"""The API's bearer token: created once, in a file that only its owner can read."""

import os
import secrets
import tempfile
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.secrets import Secret
from holdfast.system.paths import Paths, private_dir


def api_token(paths: Paths, *, configured: Secret | None = None) -> Secret:
    """The token that the configuration names, else the one of this home, made if need be.

    Two processes that make it at once get the same one, and a crash leaves no half of one.
    """
    if configured is not None:
        return configured
    if not paths.api_token.exists():
        _create(paths.api_token, "hf_" + secrets.token_urlsafe(32))
    paths.api_token.chmod(0o600)
    token = paths.api_token.read_text().strip()
    if not token:
        raise HoldfastError(f"{paths.api_token} is empty; remove it and a new token is made")
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
        pass  # somebody was quicker: theirs is the token
    finally:
        os.unlink(draft)
