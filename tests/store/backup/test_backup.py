"""Backups: their contents, how damage is detected, and what a restore keeps (K4, K5)."""

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import apsw
import pytest
from tests.faults.backup_homes import (
    leave_in_wal,
    make_backup,
    make_home,
    read_meta,
    restore,
    write_meta,
    write_turns,
)
from tests.faults.file_damage import PAGE

from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.core.ports.store_queries import ListAudit, VerifyAudit
from holdfast.store.backup import archive, create, directory
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore

ALWAYS_INCLUDED = {"manifest.json", "state.db", "holdfast.toml", "SHA256SUMS"}
UPLOAD = "workspaces/s_1/uploads/photo.png"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


def names_in(backup: Path) -> set[str]:
    with tarfile.open(backup) as tar:
        return set(tar.getnames())


def test_a_backup_contains_uploads_and_no_secrets(home: Path) -> None:
    """K4: secrets and files of agents only on request."""
    assert names_in(make_backup(home)) == {*ALWAYS_INCLUDED, UPLOAD}
    whole = names_in(make_backup(home, workspaces=True, secrets=True))
    assert whole == {*ALWAYS_INCLUDED, UPLOAD, "workspaces/s_1/made/by_an_agent.py", ".env"}


@pytest.mark.parametrize("workspaces", [False, True])
def test_progress_and_space_count_everything_that_is_copied(
    home: Path, tmp_path: Path, workspaces: bool
) -> None:
    """The database with its log, and the other files that are included."""
    (home / "workspaces/s_1/made/large.bin").write_bytes(os.urandom(3_000_000))
    leave_in_wal(home, "large", "x" * 1_000_000)
    log_bytes = (home / "state.db-wal").stat().st_size
    size = create.measure_backup(home, workspaces=workspaces, secrets=False)
    assert size.database >= (home / "state.db").stat().st_size + log_bytes > 1_000_000
    assert (size.files > 3_000_000) is workspaces
    done, most = 0, 0

    with directory.staging_folder(tmp_path / "backups") as staging:
        create.copy_closed_database(
            home / "state.db", staging / "state.db", progress=lambda _: None
        )
        copied = (staging / "state.db").stat().st_size

        def progress(read: int) -> None:
            nonlocal done, most
            done += read
            most = max(most, sum(file.stat().st_size for file in staging.iterdir()))

        spec = create.BackupSpec(
            version="0", at=time.time(), workspaces=workspaces, files_bytes=size.files
        )
        path = create.create_backup(
            home, staging / "state.db", tmp_path / "backups", spec, progress=progress
        )
    assert copied <= size.database
    assert done == 2 * (copied + size.files), "it is packed, and it is verified"
    assert most <= size.temporary
    assert archive.read_manifest(path).unpacked_bytes == copied + size.files


def test_a_restore_brings_the_audit_back_and_adds_its_own_row(home: Path) -> None:
    """K4: entries after the backup are gone, and the chain is valid."""
    before = add_audit_entry(home, "before")
    backup = make_backup(home)
    add_audit_entry(home, "since")
    restore(home, backup)
    rows = add_audit_entry(home, "after")
    assert rows == [*before, "backup.restored ", "token.added after"]


def add_audit_entry(home: Path, name: str) -> list[str]:
    """Add an audit entry; returns all entries."""

    async def act() -> list[str]:
        async with SqliteStore(home / "state.db") as store:
            kind = AuditKind.TOKEN_ADDED
            await store.write(
                RecordAudit(entry=AuditEntry(kind=kind, actor=OPERATOR, at=1.0, subject=name))
            )
            assert (await store.read(VerifyAudit())).broken == ()
            rows = await store.read(ListAudit(where=AuditFilter(after=0), limit=100))
            return [f"{row.kind} {row.subject}" for row in rows]

    return asyncio.run(act())


def test_a_backup_is_readable_by_its_owner_only_and_leaves_no_other_file(home: Path) -> None:
    """K4: whole or not there."""
    backup = make_backup(home)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.parent.stat().st_mode & 0o777 == 0o700
    assert [*backup.parent.iterdir()] == [backup]
    assert [*home.glob("state.db*")] == [home / "state.db"]


def test_a_link_out_of_a_workspace_is_not_followed(home: Path) -> None:
    """K4: an untrusted command may have made it."""
    (home / "workspaces/s_1/uploads/leak").symlink_to(home / ".env")
    (home / "workspaces/s_1/uploads/second leak").hardlink_to(home / ".env")
    (home / "workspaces/s_2").symlink_to(home.parent)
    names = names_in(make_backup(home, workspaces=True))
    assert not any("leak" in name or "s_2" in name for name in names)


def test_damage_that_row_counts_miss_prevents_a_backup(tmp_path: Path) -> None:
    """K4: every page of the copy is checked before it becomes a backup."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    asyncio.run(write_turns(home / "state.db", turns=7, words=600))
    database = home / "state.db"
    body = bytearray(database.read_bytes())
    at = next(at for at in range(PAGE, len(body), PAGE) if _is_overflow_page(body, at))
    body[at : at + 4] = bytes(4)  # a long message is truncated
    database.write_bytes(body)
    with pytest.raises(InvalidBackup, match="No backup was made"):
        make_backup(home)
    assert not [*(home / "backups").iterdir()]


def _is_overflow_page(body: bytearray, at: int) -> bool:
    """Whether a page is an overflow page of a long text: it begins with the number of the next."""
    following = int.from_bytes(body[at : at + 4], "big")
    return 0 < following <= len(body) // PAGE and b"question" in body[at : at + PAGE]


def test_a_backup_can_be_verified_with_sha256sum(home: Path, tmp_path: Path) -> None:
    (home / "workspaces/s_1/uploads/two\nlines \\n.txt").write_text("x")
    with tarfile.open(make_backup(home)) as tar:
        tar.extractall(tmp_path / "out", filter="data")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    ran = subprocess.run(check, cwd=tmp_path / "out", capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("spoil", ["flip", "cut", "cut the end", "novel"])
def test_a_changed_backup_is_invalid_and_not_restored(home: Path, spoil: str) -> None:
    """K4: verified by checksums and by opening it; the home is unchanged."""
    backup = make_backup(home)
    body = bytearray(backup.read_bytes())
    middle = len(body) // 2
    if spoil == "flip":
        body[middle] ^= 0xFF
    changed: dict[str, bytes | bytearray] = {
        "cut": body[:middle],
        "cut the end": body[:-600],
        "novel": b"once upon a time",
    }
    backup.write_bytes(changed.get(spoil, body))
    content = (home / "state.db").read_bytes()
    with directory.staging_folder(home / "backups") as staging, pytest.raises(InvalidBackup):
        create.verify_backup(backup, staging, progress=lambda done: None)
    with pytest.raises(InvalidBackup):
        restore(home, backup)
    assert (home / "state.db").read_bytes() == content
    assert [*home.glob(".restore-*")] == []


def repacked(backup: Path, **changes: object) -> Path:
    """The same backup with another manifest and valid checksums."""
    with tarfile.open(backup) as tar:
        found = {name: tar.extractfile(name) for name in tar.getnames()}
        files = {name: file.read() for name, file in found.items() if file is not None}
    del files["SHA256SUMS"]
    manifest = json.loads(files["manifest.json"]) | changes
    files["manifest.json"] = json.dumps(manifest).encode()
    if "extra" in changes:
        files[str(changes["extra"])] = b"x"
    sums = "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in files.items())
    with tarfile.open(backup, "w:gz") as tar:
        for name, body in {**files, "SHA256SUMS": sums.encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return backup


def test_a_backup_of_a_newer_schema_is_refused(home: Path) -> None:
    """K5: with nothing written; the newer Holdfast can use it."""
    backup = repacked(make_backup(home), schema=len(load_migrations()) + 1)
    content = (home / "state.db").read_bytes()
    with pytest.raises(InvalidBackup, match="schema version"):
        restore(home, backup)
    assert (home / "state.db").read_bytes() == content


def test_a_backup_with_wrong_counts_is_invalid(home: Path) -> None:
    """K4: rows are counted, and the manifest is not trusted."""
    backup = repacked(make_backup(home), counts={"messages": 1})
    with pytest.raises(InvalidBackup, match="does not match its manifest"):
        restore(home, backup)


@pytest.mark.parametrize("name", ["../outside", "/outside", "workspaces/../../outside"])
def test_a_path_outside_the_home_is_refused(home: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidBackup, match="outside"):
        restore(home, repacked(make_backup(home), extra=name))
    assert not [*tmp_path.rglob("outside")] and not Path("/outside").exists()


@pytest.mark.parametrize(
    "name", ["workspaces//twice", "./workspaces/dot", "workspaces/./dot", "workspaces/\u00e4\0b"]
)
def test_a_path_that_is_not_normalised_is_refused_before_anything_changes(
    home: Path, name: str
) -> None:
    """K4: or a restore plan would be committed that cannot be executed."""
    there = sorted(home.rglob("*"))
    with pytest.raises(InvalidBackup, match="is not a backup of Holdfast"):
        restore(home, repacked(make_backup(home), extra=name), everything=True)
    assert sorted(path for path in home.rglob("*") if "backups" not in path.parts) == there
    assert read_meta(home, "anything") is None


def test_a_file_larger_than_the_disk_is_refused_before_it_is_written(home: Path) -> None:
    """Its size as the archive has it counts, and not what the manifest says."""
    backup = make_backup(home)
    hole = tarfile.TarInfo("workspaces/hole")
    size = str(10**15)
    hole.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": size}
    with pytest.raises(InvalidBackup, match="hole"):
        restore(home, with_member(backup, hole))
    huge = tarfile.TarInfo("workspaces/huge")
    huge.pax_headers = {"size": size}
    with pytest.raises(HoldfastError, match="MB of free space"):
        restore(home, with_member(backup, huge))
    assert [*home.glob(".restore-*")] == []


def with_member(backup: Path, member: tarfile.TarInfo) -> Path:
    changed = backup.with_name("changed.tar.gz")
    with tarfile.open(backup) as source, tarfile.open(changed, "w:gz") as out:
        for each in source.getmembers():
            if each.name == "SHA256SUMS":
                out.addfile(member)
            out.addfile(each, source.extractfile(each))
    return changed


def test_a_restore_keeps_a_copy_of_a_file_with_the_longest_possible_name(home: Path) -> None:
    """K4: with `--all`, the existing file is kept under a name with the same beginning."""
    long = home / "workspaces/s_1/uploads" / ("\u00e4" * 125 + ".png")
    long.write_text("old")
    backup = make_backup(home)
    long.write_text("new")
    for previous in ("new", "old"):
        restore(home, backup, everything=True)
        assert long.read_text() == "old"
        copies = [each for each in long.parent.iterdir() if each.name.startswith("\u00e4" * 50)]
        assert previous in [each.read_text() for each in copies if each != long]


def test_a_file_name_that_is_not_utf8_is_restored_unchanged(home: Path) -> None:
    """K4: file names are bytes, and commands may use any."""
    file = home / "workspaces/s_1/uploads" / os.fsdecode(b"\xff\xfe.png")
    file.write_text("old")
    backup = make_backup(home)
    file.unlink()
    restore(home, backup)
    assert file.read_text() == "old"
    file.write_text("new")
    restore(home, backup, everything=True)
    assert file.read_text() == "old"


def test_a_restore_ignores_files_that_no_home_has(home: Path) -> None:
    restore(home, repacked(make_backup(home), extra="run/control.sock"), everything=True)
    assert not (home / "run").exists()


def test_a_backup_of_an_older_schema_is_migrated_by_the_next_start(tmp_path: Path) -> None:
    """K5: it is put back as it was."""
    path = tmp_path / "state.db"
    older = apsw.Connection(str(path))
    older.pragma("application_id", APPLICATION_ID)
    for migration in load_migrations()[:3]:
        apply_migration(older, migration)
    older.execute("INSERT INTO meta (key, value) VALUES ('from', 'long ago')")
    older.close()
    restore(tmp_path, make_backup(tmp_path))
    assert version(path) == 3
    assert read_meta(tmp_path, "from") == "long ago"
    assert version(path) == len(load_migrations())


def version(path: Path) -> int:
    db = apsw.Connection(str(path))
    found: int = db.pragma("user_version")
    db.close()
    return found


def test_a_restore_keeps_the_previous_database_readable(home: Path) -> None:
    """K4: never deleted; its WAL is kept with it."""
    backup = make_backup(home)
    write_meta(home, since="the backup")
    leave_in_wal(home, "late", "in the log")
    restored = restore(home, backup)
    assert read_meta(home, "since") is None and read_meta(home, "late") is None
    [wal, database] = sorted(restored.previous_files, key=len, reverse=True)
    assert wal == f"{database}-wal"
    old = apsw.Connection(str(home / database))
    previous = {key: value for key, value in old.execute("SELECT key, value FROM meta")}
    old.close()
    assert previous == {"since": "the backup", "late": "in the log"}


def test_a_restore_overwrites_no_database_kept_by_an_earlier_one(home: Path) -> None:
    """K4: also within one second."""
    backup = make_backup(home)
    names = set()
    for number in range(3):
        write_meta(home, run=str(number))
        names |= set(restore(home, backup).previous_files)
    assert len(names) == 3 and all((home / name).exists() for name in names)


def test_a_restore_adds_missing_files(home: Path) -> None:
    backup = make_backup(home)
    photo, config = home / UPLOAD, home / "holdfast.toml"
    photo.unlink()
    config.write_text("# mine\n")
    restored = restore(home, backup)
    assert (restored.placed, restored.left) == (1, 1)
    assert photo.read_text() == "uploads/photo.png" and config.read_text() == "# mine\n"
    restore(home, backup, everything=True)
    assert config.read_text() != "# mine\n"
    [copies] = home.glob("holdfast.toml.before-restore-*")
    assert copies.read_text() == "# mine\n"


def test_a_restore_does_not_follow_links(home: Path, tmp_path: Path) -> None:
    """K4: a command may have made a link that leads out of the home; the rest is restored."""
    backup = make_backup(home)
    write_meta(home, since="the backup")
    (home / UPLOAD).unlink()
    (home / UPLOAD).parent.rmdir()
    (home / UPLOAD).parent.symlink_to(tmp_path)
    restore(home, backup)
    assert not (tmp_path / "photo.png").exists()
    assert read_meta(home, "since") is None


def test_pending_deliveries_have_an_unknown_outcome_after_a_restore(home: Path) -> None:
    """I2: it is sent marked as possibly repeated."""
    rows = "('d_1', '{}', 'reply', 'pending', 1, 1), ('d_2', '{}', 'reply', 'sent', 1, 1)"
    db = apsw.Connection(str(home / "state.db"))
    db.execute(
        f"INSERT INTO outbox (id, address, kind, state, created_at, updated_at) VALUES {rows}"
    )
    db.close()
    restore(home, make_backup(home))
    db = apsw.Connection(str(home / "state.db"))
    assert db.execute("SELECT id, doubtful FROM outbox").fetchall() == [("d_1", 1), ("d_2", 0)]
    db.close()


def test_pruning_keeps_the_newest_backups_whatever_the_clock_says(home: Path) -> None:
    """K4: a backup made after the clock was set back does not count as the oldest."""
    future = [
        make_backup(home).rename(home / "backups" / f"holdfast-{n}.tar.gz") for n in (1, 2, 3)
    ]
    for backup in future:
        repacked(backup, made_at=9e9)
    newest = make_backup(home)
    gone = directory.prune_backups(home / "backups", keep=2, always_keep=newest)
    assert len(gone) == 2 and newest.exists()
    assert directory.prune_backups(home / "backups", keep=2) == []


def test_a_backup_is_found_by_name_by_prefix_or_as_the_latest(home: Path) -> None:
    folder, backup = home / "backups", make_backup(home)
    (folder / "holdfast-99999999.tar.gz").write_bytes(b"no backup, and newer")
    stem = backup.name.removesuffix(".tar.gz")
    for name in (stem, backup.name, stem[:15], stem.removeprefix("holdfast-"), "latest"):
        assert directory.find_backup(folder, name) == backup, name
    with pytest.raises(HoldfastError, match="begin with"):
        directory.find_backup(folder, "holdfast-")
    with pytest.raises(HoldfastError, match="backup list"):
        directory.find_backup(folder, "holdfast-1999")


def test_staging_folders_of_killed_processes_are_removed_and_those_in_use_are_not(
    home: Path,
) -> None:
    """K4: its lock died with it."""
    folder = home / "backups"
    kill = (
        "import os, signal, sys; from pathlib import Path;"
        "from holdfast.store.backup import directory;"
        "staging = directory.staging_folder(Path(sys.argv[1])); folder = staging.__enter__();"
        "(folder / 'state.db').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", kill, str(folder)], check=False, timeout=50)
    [left] = folder.iterdir()
    with directory.staging_folder(folder) as first:
        assert not left.exists()
        with directory.staging_folder(folder):
            assert first.exists()
    assert [*folder.iterdir()] == []
