"""Makes homes, backups and restores without a gateway process."""

import asyncio
import time
from pathlib import Path

import apsw

from holdfast.core.ids import PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import AssistantMessage, UserMessage
from holdfast.core.ports.store_commands import AcceptMessage, SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity, GetMeta
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState
from holdfast.store.backup import create, directory
from holdfast.store.backup.create import copy_closed_database
from holdfast.store.backup.restore import RestoreResult, restore_backup
from holdfast.store.sqlite.store import SqliteStore


async def write_turns(path: Path, *, turns: int, sessions: int = 1, words: int = 5) -> None:
    """Write answered turns, as a gateway leaves them."""
    async with SqliteStore(path) as store:
        for number in range(turns):
            chat = f"c{number % sessions}"
            source = Source(platform="api", chat_id=chat, user_id="me")
            route = build_session_key(source)
            session_id, turn_id = SessionId(f"s_{chat}"), TurnId(f"t_{number}")
            text = f"question {number} " * (1 + words * (number % 7))
            inbound = Inbound(source=source, event_id=str(number), message_id="1", text=text)
            accepted = await store.write(
                AcceptMessage(
                    inbound=inbound, route=route, principal=PrincipalId("me"), at=float(number)
                )
            )
            await store.write(
                BeginTurn(
                    turn_id=turn_id,
                    session_id=session_id,
                    route=route,
                    inbox_ids=(accepted.row.id,),
                    messages=(UserMessage(text=text),),
                    prompt="Be kind.",
                    at=float(number),
                )
            )
            await store.write(
                EndTurn(
                    turn_id=turn_id,
                    session_id=session_id,
                    state=TurnRowState.ANSWERED,
                    messages=(AssistantMessage(text=f"answer {number}"),),
                    at=float(number),
                )
            )


def make_home(folder: Path, *, turns: int = 3) -> Path:
    """A conversation, an attachment, a file of an agent, a configuration and a key."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text('[model]\nprovider = "demo"\n')
    (home / ".env").write_text("OPENAI_API_KEY=sk-0123456789\n")
    for name in ("uploads/photo.png", "made/by_an_agent.py"):
        file = home / "workspaces" / "s_1" / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    asyncio.run(write_turns(home / "state.db", turns=turns))
    return home


def make_backup(home: Path, *, workspaces: bool = False, secrets: bool = False) -> Path:
    folder = home / "backups"
    with directory.staging_folder(folder) as staging:
        copy_closed_database(home / "state.db", staging / "state.db", progress=lambda copied: None)
        spec = create.BackupSpec(
            version="0.1.0", at=time.time(), workspaces=workspaces, secrets=secrets
        )
        return create.create_backup(
            home, staging / "state.db", folder, spec, progress=lambda done: None
        )


def restore(home: Path, backup: Path, *, everything: bool = False) -> RestoreResult:
    return restore_backup(
        home, backup, at=time.time(), overwrite=everything, progress=lambda done: None
    )


def write_meta(home: Path, **values: str) -> None:
    async def write() -> None:
        async with SqliteStore(home / "state.db") as store:
            for key, value in values.items():
                await store.write(SetMeta(key=key, value=value))

    asyncio.run(write())


def leave_in_wal(home: Path, key: str, value: str) -> None:
    """As a killed process leaves it: committed to the WAL, without a checkpoint."""
    db = apsw.Connection(str(home / "state.db"))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
    db.close()
    assert (home / "state.db-wal").stat().st_size


def read_meta(home: Path, key: str) -> str | None:
    async def ask() -> str | None:
        async with SqliteStore(home / "state.db") as store:
            assert await store.read(CheckIntegrity()) == []
            return await store.read(GetMeta(key=key))

    return asyncio.run(ask())
