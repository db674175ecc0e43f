"""The manifest of a backup, and the error of a file that is no valid backup."""

from collections.abc import Mapping

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _n

BACKUP_FORMAT = 1


class InvalidBackup(HoldfastError):
    """The file is not a backup, or has changed since it was created."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first file in a backup, so that it can be read without unpacking the rest."""

    format: int = BACKUP_FORMAT
    version: str  # of the program that made it
    schema: int
    made_at: float
    database_bytes: int
    files_bytes: int = 0  # of all other files; 0 in backups of earlier versions
    counts: Mapping[str, int]  # rows by table
    last_active: float | None = None  # when its newest conversation was last used
    # True: all files of the workspaces; False: only files that people sent.
    workspaces: bool = False
    secrets: bool = False

    @property
    def unpacked_bytes(self) -> int:
        return self.database_bytes + self.files_bytes

    def describe(self) -> str:
        """Its contents, for a person."""
        return describe_counts(self.counts)


def describe_counts(counts: Mapping[str, int]) -> str:
    """The contents of a database with these numbers of rows by table, for a person."""
    sessions, messages = counts.get("sessions", 0), counts.get("messages", 0)
    parts = (
        _n("{n} conversation", "{n} conversations", sessions).format(n=sessions),
        _n("{n} message", "{n} messages", messages).format(n=messages),
    )
    return ", ".join(parts)


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of copying a database, in pages."""

    done: int
    # The field name in messages between versions of the gateway.
    total: int = msgspec.field(name="of")
