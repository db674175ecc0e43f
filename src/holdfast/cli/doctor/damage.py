"""A damaged database, as the doctor sees it: what can take its place, and asking for that."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from holdfast.cli.backup_place import room_beside, shelf_of
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration
from holdfast.cli.doctor.finding import Finding, Level, Patient
from holdfast.cli.restoring import PURPOSE, put_back, saved_from
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.backup import BadBackup
from holdfast.store.backup import directory, packing
from holdfast.store.backup.directory import Kept
from holdfast.system.lock import HomeLock


def damaged(patient: Patient, what: str) -> Finding:
    """Nothing is done about it but by a person's word; what is there is set aside then."""
    good = newest_good(shelf_of(patient.home))
    stop = "Stop the gateway, then " if patient.running else ""
    offers = ["`holdfast restore --salvage` (what can be read of it)"]
    if good is not None:
        offers.insert(0, f"`holdfast restore {good.name}` ({_described(good)})")
    asked = not patient.running and sys.stdin.isatty()
    return Finding(
        level=Level.PROBLEM,
        what=what,
        why="Nothing is written to it any more, so that no message is accepted.",
        remedy=f"{stop}{', or '.join(offers)}. Each sets this file aside and deletes nothing.",
        mend=_asking(patient.home, what, good) if asked else None,
    )


def newest_good(folder: Path) -> Kept | None:
    """The newest that can be opened, each tried in its turn."""
    for one in directory.kept(folder):
        try:
            with room_beside(one.path) as room:
                packing.verify(one.path, room, tell=lambda done: None)
        except BadBackup:
            continue
        return one
    return None


def _described(one: Kept) -> str:
    assert one.manifest is not None, "it was verified"
    return f"{duration(max(0.0, time.time() - one.made_at))} old, {one.manifest.told()}"


def _asking(home: Path, what: str, good: Kept | None) -> Callable[[], str]:
    def mend() -> str:
        click.echo(f"\n    {safe(what)}\n    It can be mended in more than one way:")
        if good is not None:
            click.echo(f"      restore  the newest good backup ({_described(good)})")
        click.echo("      salvage  save what can be read of it, and count what is lost")
        click.echo("      leave    do nothing now")
        ways = [*(["restore"] if good is not None else []), "salvage", "leave"]
        chosen = click.prompt("    Which", type=click.Choice(ways), default="leave")
        if chosen == "leave":
            raise HoldfastError("it was left as it is.")
        with HomeLock(home, purpose=PURPOSE):
            return _restored(home, good) if chosen == "restore" else _saved(home)

    return mend


def _restored(home: Path, good: Kept | None) -> str:
    assert good is not None, "it was offered"
    restored = put_back(home, good.path)
    return f"{restored.manifest.told()} are back; set aside: {', '.join(restored.aside)}"


def _saved(home: Path) -> str:
    saved, aside = saved_from(home)
    return f"{saved.told()}; set aside: {aside}"
