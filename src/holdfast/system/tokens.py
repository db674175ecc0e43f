"""The API's bearer token and the key of login cookies: each is created once, in a file that only
its owner can read."""

import os
import secrets
import tempfile
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.secrets import MIN_SECRET_BITS, Secret, max_entropy_bits
from holdfast.system.paths import Paths, private_dir


def api_token(paths: Paths, *, configured: Secret | None = None) -> Secret:
    """The configured token, else the one of this home, created if it does not exist.

    Two processes that create it at once get the same one; a crash leaves no incomplete file.
    """
    if configured is not None:
        return configured
    token = _stored(paths.api_token, prefix="hf_")
    if max_entropy_bits(token.reveal()) < MIN_SECRET_BITS:
        raise HoldfastError(
            "The token in {file} could be guessed: it has less than {bits} bits. Remove the file, "
            "and a new one is created",
            file=paths.api_token,
            bits=MIN_SECRET_BITS,
        )
    return token


def cookie_key(paths: Paths) -> Secret:
    """The random key that login cookies are signed with, created if it does not exist."""
    return _stored(paths.cookie_key)


def _stored(path: Path, *, prefix: str = "") -> Secret:
    if not path.exists():
        _create(path, prefix + secrets.token_urlsafe(32))
    path.chmod(0o600)
    token = path.read_text().strip()
    if not token:
        raise HoldfastError("{file} is empty. Remove it, and a new one is created", file=path)
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
