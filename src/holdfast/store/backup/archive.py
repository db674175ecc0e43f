"""The format of a backup: a compressed tar with a manifest first and the checksums of all files
last."""

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import msgspec

from holdfast.core.ops.backup import BACKUP_FORMAT, BackupManifest, InvalidBackup

MANIFEST_FILE = "manifest.json"
CHECKSUMS_FILE = "SHA256SUMS"
_COMPRESSION_LEVEL = 4  # twice as quick as the usual 9 and hardly larger
_CHUNK = 1024 * 1024
_MAX_METADATA = 64 * 1024 * 1024  # of manifest and sums, which are read into memory

BytesCallback = Callable[[int], None]
"""Gets the number of bytes as they are read."""


class ArchiveSource(NamedTuple):
    """A file to be packed: its name in the archive, and a descriptor that is the archive's to
    close."""

    name: str
    fd: int


def write(
    out: IO[bytes],
    manifest: BackupManifest,
    sources: Iterable[ArchiveSource],
    *,
    progress: BytesCallback,
) -> None:
    """Writes the archive. The checksums are last, because a stream knows them only then. They have
    the format of `sha256sum`, so that standard tools can check and unpack a backup."""
    sums: list[str] = []
    with (
        gzip.GzipFile(
            fileobj=out, mode="wb", compresslevel=_COMPRESSION_LEVEL, mtime=0, filename=""
        ) as gz,
        tarfile.open(fileobj=gz, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        body = msgspec.json.format(msgspec.json.encode(manifest))
        sums.append(_add_bytes(tar, MANIFEST_FILE, body, at=manifest.made_at))
        for source in sources:
            with open(source.fd, "rb") as file:
                sums.append(_add_file(tar, source.name, file, progress))
        _add_bytes(tar, CHECKSUMS_FILE, os.fsencode("".join(sums)), at=manifest.made_at)


def read_manifest(path: Path) -> BackupManifest:
    """The manifest of a backup. Nothing after it is read."""
    with _open_tar(path) as tar:
        member = tar.next()
        if member is None or member.name != MANIFEST_FILE:
            raise InvalidBackup(
                "{path} is not a backup of Holdfast: it does not begin with a manifest. "
                "`holdfast backup list` shows all backups",
                path=path,
            )
        return _decode_manifest(path, _read_small(tar, member, path))


def unpack(
    path: Path,
    folder: Path,
    *,
    should_extract: Callable[[str], bool],
    check_space: Callable[[int], None],
    progress: BytesCallback,
) -> tuple[BackupManifest, list[str]]:
    """Read a whole backup, verify its checksums, and write the selected files into a folder.
    Returns the manifest and their names. After `InvalidBackup` the written files must not be used.

    `check_space` is called with the size of each file before it is written, and raises if there is
    not enough space: the sizes in the manifest are not trusted.
    """
    found: dict[str, str] = {}
    written: list[str] = []
    with _open_tar(path) as tar:
        first = tar.next()
        if first is None or first.name != MANIFEST_FILE:
            raise InvalidBackup(
                "{path} is not a backup of Holdfast: it does not begin with a manifest. "
                "`holdfast backup list` shows all backups",
                path=path,
            )
        body = _read_small(tar, first, path)
        found[MANIFEST_FILE] = hashlib.sha256(body).hexdigest()
        while (member := tar.next()) is not None:
            if member.name == CHECKSUMS_FILE:
                _compare_checksums(path, _parse_checksums(_read_small(tar, member, path)), found)
                return _decode_manifest(path, body), written
            _check_name(path, member)
            to = folder / member.name if should_extract(member.name) else None
            if to is not None:
                check_space(member.size)
            found[member.name] = _extract(tar, member, to, progress)
            if to is not None:
                written.append(member.name)
    raise InvalidBackup(
        "{path} is incomplete: the checksums at its end are missing. Use another backup; "
        "`holdfast backup list` shows all",
        path=path,
    )


def _add_bytes(tar: tarfile.TarFile, name: str, body: bytes, *, at: float) -> str:
    info = _tar_info(name, len(body), at)
    tar.addfile(info, io.BytesIO(body))
    return _checksum_line(hashlib.sha256(body).hexdigest(), name)


def _add_file(tar: tarfile.TarFile, name: str, file: IO[bytes], progress: BytesCallback) -> str:
    status = os.fstat(file.fileno())
    info = _tar_info(name, status.st_size, status.st_mtime)
    info.mode = status.st_mode & 0o700
    reading = _ChecksumReader(file, status.st_size, progress)
    tar.addfile(info, reading)
    return _checksum_line(reading.digest.hexdigest(), name)


def _tar_info(name: str, size: int, at: float) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, int(at), 0o600
    return info


class _ChecksumReader:
    """A file whose checksum is computed while it is read. It always has its initial size, which a
    tar archive must know in advance: if a command shortens it meanwhile, zeros follow."""

    def __init__(self, file: IO[bytes], size: int, progress: BytesCallback) -> None:
        self._file = file
        self._left = size
        self._progress = progress
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        count = self._left if size < 0 else min(size, self._left)
        piece = self._file.read(count).ljust(count, b"\0")
        self._left -= count
        self.digest.update(piece)
        self._progress(count)
        return piece


def _checksum_line(digest: str, name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    mark = "" if escaped == name else "\\"
    return f"{mark}{digest}  {escaped}\n"


def _parse_checksums(body: bytes) -> dict[str, str]:
    sums = {}
    for line in os.fsdecode(body).rstrip("\n").split("\n"):
        digest, _, name = line.removeprefix("\\").partition("  ")
        if line.startswith("\\"):
            name = re.sub(r"\\([\\n])", lambda one: "\n" if one[1] == "n" else "\\", name)
        sums[name] = digest
    return sums


def _compare_checksums(path: Path, expected: dict[str, str], found: dict[str, str]) -> None:
    if expected == found:
        return
    wrong = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    raise InvalidBackup(
        "{path} is damaged: the checksum of {file!r} is wrong. Use another backup; "
        "`holdfast backup list` shows all",
        path=path,
        file=wrong[0],
    )


def _check_name(path: Path, member: tarfile.TarInfo) -> None:
    """Refuses names with which a malicious archive could write outside the folder or in two places,
    and sparse files, which could be larger than any disk."""
    name = PurePosixPath(member.name)
    inside = bool(name.parts) and not name.is_absolute() and ".." not in name.parts
    spelt = str(name) == member.name and "\0" not in member.name
    if not (inside and spelt and member.isfile() and not member.issparse()):
        raise InvalidBackup(
            "{path} is not a backup of Holdfast: it contains {member!r}. "
            "`holdfast backup list` shows all backups",
            path=path,
            member=member.name,
        )


def _extract(
    tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path | None, progress: BytesCallback
) -> str:
    if to is None:
        return _copy_with_checksum(tar, member, progress, write_chunk=lambda piece: None)
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = (member.mode & 0o700) | 0o600
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(fd, "wb") as out:
        return _copy_with_checksum(tar, member, progress, write_chunk=out.write)


def _copy_with_checksum(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    progress: BytesCallback,
    *,
    write_chunk: Callable[[bytes], object],
) -> str:
    reading, digest = tar.extractfile(member), hashlib.sha256()
    assert reading is not None, "it is a file"
    while piece := reading.read(_CHUNK):
        digest.update(piece)
        write_chunk(piece)
        progress(len(piece))
    return digest.hexdigest()


def _read_small(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    file = tar.extractfile(member) if member.isfile() else None
    if file is None or member.size > _MAX_METADATA:
        raise InvalidBackup(
            "{path} is not a backup of Holdfast: its {member} is too large or not a regular file. "
            "`holdfast backup list` shows all backups",
            path=path,
            member=member.name,
        )
    return file.read()


def _decode_manifest(path: Path, body: bytes) -> BackupManifest:
    try:
        manifest = msgspec.json.decode(body, type=BackupManifest)
    except msgspec.MsgspecError as error:
        raise InvalidBackup(
            "{path} has a manifest that cannot be read: {error}. Use another backup; "
            "`holdfast backup list` shows all",
            path=path,
            error=error,
        ) from None
    if manifest.format > BACKUP_FORMAT:
        raise InvalidBackup(
            "{path} was made by Holdfast {version} in a newer format. Use that version",
            path=path,
            version=manifest.version,
        )
    return manifest


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        file = open(path, "rb")  # noqa: SIM115 - its own error is reported differently
    except OSError as error:
        raise InvalidBackup(
            "{path} cannot be read: {error}. `holdfast backup list` shows all backups",
            path=path,
            error=error.strerror,
        ) from None
    try:
        with file, tarfile.open(fileobj=file, mode="r|gz") as tar:
            yield tar
    except (FileExistsError, NotADirectoryError):
        raise InvalidBackup(
            "{path} is not a backup of Holdfast: it contains a file twice. "
            "`holdfast backup list` shows all backups",
            path=path,
        ) from None
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise InvalidBackup(
            "{path} is damaged or not a backup of Holdfast: {error}. "
            "`holdfast backup list` shows all backups",
            path=path,
            error=error,
        ) from None
