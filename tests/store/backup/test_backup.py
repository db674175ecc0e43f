"""Backups as files: what is in one, how a bad one is known, and what a restore leaves."""

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import apsw
import pytest
from tests.faults.backup_homes import (
    backed_up,
    left_in_the_log,
    made_home,
    put_back,
    read,
    talk,
    written,
)
from tests.faults.file_damage import PAGE

from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import InvalidBackup
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditFilter, AuditKind
from holdfast.store.backup import create, directory
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore

USUAL = {"manifest.json", "state.db", "holdfast.toml", "SHA256SUMS"}
UPLOAD = "workspaces/s_1/uploads/photo.png"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return made_home(tmp_path)


def names_in(backup: Path) -> set[str]:
    with tarfile.open(backup) as tar:
        return set(tar.getnames())


def test_a_backup_contains_uploads_and_no_secrets(home: Path) -> None:
    """K4: keys and files of agents only where they are asked for."""
    assert names_in(backed_up(home)) == {*USUAL, UPLOAD}
    whole = names_in(backed_up(home, workspaces=True, secrets=True))
    assert whole == {*USUAL, UPLOAD, "workspaces/s_1/made/by_an_agent.py", ".env"}


def test_a_restore_brings_the_audit_back_and_adds_its_own_row(home: Path) -> None:
    """K4: what was done since is gone with all the rest, and the chain holds."""
    before = acted(home, "before")
    backup = backed_up(home)
    acted(home, "since")
    put_back(home, backup)
    rows = acted(home, "after")
    assert rows == [*before, "backup.restored ", "token.added after"]


def acted(home: Path, name: str) -> list[str]:
    """Somebody acts; all that the audit says then."""

    async def act() -> list[str]:
        async with SqliteStore(home / "state.db") as store:
            kind = AuditKind.TOKEN_ADDED
            await store.record_audit(AuditEntry(kind=kind, actor=OPERATOR, at=1.0, subject=name))
            assert (await store.verify_audit()).broken == ()
            rows = await store.audit(AuditFilter(after=0), limit=100)
            return [f"{row.kind} {row.subject}" for row in rows]

    return asyncio.run(act())


def test_a_backup_is_readable_by_its_owner_only_and_leaves_no_other_file(home: Path) -> None:
    """K4: whole or not there."""
    backup = backed_up(home)
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.parent.stat().st_mode & 0o777 == 0o700
    assert [*backup.parent.iterdir()] == [backup]
    assert [*home.glob("state.db*")] == [home / "state.db"]


def test_a_link_out_of_a_workspace_is_not_followed(home: Path) -> None:
    """K4: commands that nobody trusts may have made it."""
    (home / "workspaces/s_1/uploads/leak").symlink_to(home / ".env")
    (home / "workspaces/s_1/uploads/second leak").hardlink_to(home / ".env")
    (home / "workspaces/s_2").symlink_to(home.parent)
    names = names_in(backed_up(home, workspaces=True))
    assert not any("leak" in name or "s_2" in name for name in names)


def test_damage_that_row_counts_miss_prevents_a_backup(tmp_path: Path) -> None:
    """K4: every page of the copy is looked at before it is called a backup."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    asyncio.run(talk(home / "state.db", turns=7, words=600))
    database = home / "state.db"
    body = bytearray(database.read_bytes())
    at = next(at for at in range(PAGE, len(body), PAGE) if _goes_on(body, at))
    body[at : at + 4] = bytes(4)  # a long message ends in its middle
    database.write_bytes(body)
    with pytest.raises(InvalidBackup, match="No backup was made"):
        backed_up(home)
    assert not [*(home / "backups").iterdir()]


def _goes_on(body: bytearray, at: int) -> bool:
    """Whether a page holds the middle of a long text: it names the next, and is no tree's."""
    following = int.from_bytes(body[at : at + 4], "big")
    return 0 < following <= len(body) // PAGE and b"question" in body[at : at + PAGE]


def test_a_backup_can_be_verified_with_sha256sum(home: Path, tmp_path: Path) -> None:
    (home / "workspaces/s_1/uploads/two\nlines \\n.txt").write_text("x")
    with tarfile.open(backed_up(home)) as tar:
        tar.extractall(tmp_path / "out", filter="data")
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    ran = subprocess.run(check, cwd=tmp_path / "out", capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("spoil", ["flip", "cut", "cut the end", "novel"])
def test_a_changed_backup_is_invalid_and_not_restored(home: Path, spoil: str) -> None:
    """K4: verified by its sums and by opening it; what is there stays."""
    backup = backed_up(home)
    body = bytearray(backup.read_bytes())
    middle = len(body) // 2
    if spoil == "flip":
        body[middle] ^= 0xFF
    cut = {"cut": body[:middle], "cut the end": body[:-600], "novel": b"once upon a time"}
    backup.write_bytes(cut.get(spoil, body))
    content = (home / "state.db").read_bytes()
    with directory.staging_folder(home / "backups") as room, pytest.raises(InvalidBackup):
        create.verify_backup(backup, room, progress=lambda done: None)
    with pytest.raises(InvalidBackup):
        put_back(home, backup)
    assert (home / "state.db").read_bytes() == content
    assert [*home.glob(".restore-*")] == []


def repacked(backup: Path, **changes: object) -> Path:
    """The same, as another program would have made it: its sums are right."""
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
    backup = repacked(backed_up(home), schema=len(load_migrations()) + 1)
    content = (home / "state.db").read_bytes()
    with pytest.raises(InvalidBackup, match="schema version"):
        put_back(home, backup)
    assert (home / "state.db").read_bytes() == content


def test_a_backup_with_wrong_counts_is_invalid(home: Path) -> None:
    """K4: opened and counted, not believed."""
    backup = repacked(backed_up(home), counts={"messages": 1})
    with pytest.raises(InvalidBackup, match="does not match its manifest"):
        put_back(home, backup)


@pytest.mark.parametrize("name", ["../outside", "/outside", "workspaces/../../outside"])
def test_a_path_outside_the_home_is_refused(home: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidBackup, match="outside"):
        put_back(home, repacked(backed_up(home), extra=name))
    assert not [*tmp_path.rglob("outside")] and not Path("/outside").exists()


@pytest.mark.parametrize(
    "name", ["workspaces//twice", "./workspaces/dot", "workspaces/./dot", "workspaces/\u00e4\0b"]
)
def test_a_path_that_is_not_normalised_is_refused_before_anything_changes(
    home: Path, name: str
) -> None:
    """K4: or a plan would be committed to that nobody can carry out."""
    there = sorted(home.rglob("*"))
    with pytest.raises(InvalidBackup, match="which no backup of Holdfast does"):
        put_back(home, repacked(backed_up(home), extra=name), everything=True)
    assert sorted(path for path in home.rglob("*") if "backups" not in path.parts) == there
    assert read(home, "anything") is None


def test_a_file_larger_than_the_disk_is_refused_before_it_is_written(home: Path) -> None:
    """Its size as the archive has it counts, and not what the manifest says."""
    backup = backed_up(home)
    hole = tarfile.TarInfo("workspaces/hole")
    size = str(10**15)
    hole.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": size}
    with pytest.raises(InvalidBackup, match="hole"):
        put_back(home, with_member(backup, hole))
    huge = tarfile.TarInfo("workspaces/huge")
    huge.pax_headers = {"size": size}
    with pytest.raises(HoldfastError, match="MB of free space"):
        put_back(home, with_member(backup, huge))
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
    """K4: with `--all`, what is there is kept under a name that begins as its own."""
    long = home / "workspaces/s_1/uploads" / ("\u00e4" * 125 + ".png")
    long.write_text("old")
    backup = backed_up(home)
    long.write_text("new")
    for kept in ("new", "old"):
        put_back(home, backup, everything=True)
        assert long.read_text() == "old"
        aside = [each for each in long.parent.iterdir() if each.name.startswith("\u00e4" * 50)]
        assert kept in [each.read_text() for each in aside if each != long]


def test_a_file_name_that_is_not_utf8_is_restored_unchanged(home: Path) -> None:
    """K4: names of files are bytes, and commands write what they like."""
    odd = home / "workspaces/s_1/uploads" / os.fsdecode(b"\xff\xfe.png")
    odd.write_text("old")
    backup = backed_up(home)
    odd.unlink()
    put_back(home, backup)
    assert odd.read_text() == "old"
    odd.write_text("new")
    put_back(home, backup, everything=True)
    assert odd.read_text() == "old"


def test_a_restore_ignores_files_that_no_home_has(home: Path) -> None:
    put_back(home, repacked(backed_up(home), extra="run/control.sock"), everything=True)
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
    put_back(tmp_path, backed_up(tmp_path))
    assert version(path) == 3
    assert read(tmp_path, "from") == "long ago"
    assert version(path) == len(load_migrations())


def version(path: Path) -> int:
    db = apsw.Connection(str(path))
    found: int = db.pragma("user_version")
    db.close()
    return found


def test_a_restore_keeps_the_previous_database_readable(home: Path) -> None:
    """K4: never deleted; the log that belongs to it goes with it."""
    backup = backed_up(home)
    written(home, since="the backup")
    left_in_the_log(home, "late", "in the log")
    restored = put_back(home, backup)
    assert read(home, "since") is None and read(home, "late") is None
    [log, aside] = sorted(restored.previous_files, key=len, reverse=True)
    assert log == f"{aside}-wal"
    old = apsw.Connection(str(home / aside))
    kept = dict(old.execute("SELECT key, value FROM meta").fetchall())
    old.close()
    assert kept == {"since": "the backup", "late": "in the log"}


def test_a_restore_overwrites_no_database_kept_by_an_earlier_one(home: Path) -> None:
    """K4: also within one second."""
    backup = backed_up(home)
    names = set()
    for number in range(3):
        written(home, life=str(number))
        names |= set(put_back(home, backup).previous_files)
    assert len(names) == 3 and all((home / name).exists() for name in names)


def test_a_restore_adds_missing_files(home: Path) -> None:
    backup = backed_up(home)
    photo, config = home / UPLOAD, home / "holdfast.toml"
    photo.unlink()
    config.write_text("# mine\n")
    restored = put_back(home, backup)
    assert (restored.placed, restored.left) == (1, 1)
    assert photo.read_text() == "uploads/photo.png" and config.read_text() == "# mine\n"
    put_back(home, backup, everything=True)
    assert config.read_text() != "# mine\n"
    [aside] = home.glob("holdfast.toml.before-restore-*")
    assert aside.read_text() == "# mine\n"


def test_a_restore_does_not_follow_links(home: Path, tmp_path: Path) -> None:
    """K4: a command may have left one that leads out of the home; the rest is restored."""
    backup = backed_up(home)
    written(home, since="the backup")
    (home / UPLOAD).unlink()
    (home / UPLOAD).parent.rmdir()
    (home / UPLOAD).parent.symlink_to(tmp_path)
    put_back(home, backup)
    assert not (tmp_path / "photo.png").exists()
    assert read(home, "since") is None


def test_pending_deliveries_have_an_unknown_outcome_after_a_restore(home: Path) -> None:
    """I2: nobody knows, so that it is sent as what may be a repetition."""
    rows = "('d_1', '{}', 'reply', 'pending', 1, 1), ('d_2', '{}', 'reply', 'sent', 1, 1)"
    db = apsw.Connection(str(home / "state.db"))
    db.execute(
        f"INSERT INTO outbox (id, address, kind, state, created_at, updated_at) VALUES {rows}"
    )
    db.close()
    put_back(home, backed_up(home))
    db = apsw.Connection(str(home / "state.db"))
    assert db.execute("SELECT id, doubtful FROM outbox").fetchall() == [("d_1", 1), ("d_2", 0)]
    db.close()


def test_pruning_keeps_the_newest_backups_whatever_the_clock_says(home: Path) -> None:
    """K4: one made after the clock was set back is not taken for the oldest."""
    future = [backed_up(home).rename(home / "backups" / f"holdfast-{n}.tar.gz") for n in (1, 2, 3)]
    for backup in future:
        repacked(backup, made_at=9e9)
    newest = backed_up(home)
    gone = directory.prune_backups(home / "backups", keep=2, always_keep=newest)
    assert len(gone) == 2 and newest.exists()
    assert directory.prune_backups(home / "backups", keep=2) == []


def test_a_backup_is_found_by_name_by_prefix_or_as_the_latest(home: Path) -> None:
    folder, backup = home / "backups", backed_up(home)
    (folder / "holdfast-99999999.tar.gz").write_bytes(b"no backup, and newer")
    stem = backup.name.removesuffix(".tar.gz")
    for name in (stem, backup.name, stem[:15], stem.removeprefix("holdfast-"), "latest"):
        assert directory.find_backup(folder, name) == backup, name
    with pytest.raises(HoldfastError, match="several"):
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
