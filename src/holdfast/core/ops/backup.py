"""A backup: its manifest, its contents, and what can be wrong with it."""

from collections.abc import Mapping

import msgspec

from holdfast.core.errors import HoldfastError

BACKUP_FORMAT = 1


class InvalidBackup(HoldfastError):
    """The file is no backup, or is not what it was when it was made."""


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing in a backup, so that it can be told without unpacking the rest."""

    format: int = BACKUP_FORMAT
    version: str  # of the program that made it
    schema: int
    made_at: float
    database_bytes: int
    counts: Mapping[str, int]  # rows by table
    last_active: float | None = None  # when the newest conversation in it was last used
    workspaces: bool = False  # all of them; else only what people sent
    secrets: bool = False

    def describe(self) -> str:
        """What is in it, in the words of a person."""
        return describe_counts(self.counts)


def describe_counts(counts: Mapping[str, int]) -> str:
    """How much of what people said is in a database with so many rows."""
    kinds = {"conversation": "sessions", "message": "messages"}
    return ", ".join(
        f"{counts.get(table, 0)} {kind}{'' if counts.get(table) == 1 else 's'}"
        for kind, table in kinds.items()
    )


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the copying of a database has come, in pages."""

    done: int
    total: int = msgspec.field(name="of")  # the name of it between two versions of the gateway
