"""Which of the files that people attach an account takes, by their names."""

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase

ANY_TYPE = "*"


async def is_accepted_type(name: str, patterns: Sequence[str]) -> bool:
    """`.csv` means names that end so, `image/*` what such a name stands for."""
    if ANY_TYPE in patterns:
        return True
    # In a thread: what endings mean is looked up in files of this machine, once.
    return await asyncio.to_thread(_matches, name.lower(), patterns)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    import mimetypes  # noqa: PLC0415 - for accounts that do not take everything

    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return any(
        name.endswith(pattern.lower())
        if pattern.startswith(".")
        else fnmatchcase(media_type, pattern.lower())
        for pattern in patterns
    )
