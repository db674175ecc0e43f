"""Fills a home with many sessions on several platforms, one of them with a long turn."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import apsw

from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths

PLATFORMS = ("simulated", "telegram", "irc", "matrix", "web")
TITLES = (
    "What uses the disk space?",
    "Rename the photos by date",
    "A timer for the tide table",
    "Why does the build fail on Fridays",
    "Letter to the harbour office",
)
MODEL = "scripted"
LONGEST = "s_longest"  # the session whose only turn has `steps` calls


def fill(home: Path, *, sessions: int, steps: int = 0) -> None:
    """Writes the sessions before a gateway runs there. The newest was active just now, each older
    one half a minute earlier; the one with the long turn is the oldest."""
    home.mkdir(mode=0o700, exist_ok=True)
    asyncio.run(_create_database(Paths(home).db))
    now = time.time()
    with apsw.Connection(str(Paths(home).db)) as db:
        for n in range(sessions):
            _insert_session(db, session_id_of(n), n, at=now - 30 * n, messages=_short_transcript(n))
        if steps:
            _insert_session(
                db, LONGEST, sessions, at=now - 30 * sessions, messages=_long_transcript(steps)
            )
    db.close()


def session_id_of(n: int) -> str:
    return f"s_{n:027d}"


async def _create_database(path: Path) -> None:
    async with SqliteStore(path):
        pass


def _short_transcript(n: int) -> list[dict[str, Any]]:
    return [
        {"type": "user", "text": f"{TITLES[n % 5]} It is the {n}th time."},
        {"type": "assistant", "text": f"It is done, {n} of them.", "model": MODEL},
    ]


def _long_transcript(steps: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"type": "user", "text": "Go through all of it, step by step."}
    ]
    for n in range(steps):
        call = {"id": f"c{n}", "name": "terminal", "arguments": '{"command": "make test"}'}
        text = f"Step **{n}**:\n\n```python\nprint({n})\n```" if n % 10 == 0 else ""
        printed = "\n".join(f"line {line} of step {n}" for line in range(200))
        messages.append({"type": "assistant", "text": text, "calls": [call], "model": MODEL})
        messages.append({"type": "tool", "call_id": f"c{n}", "name": "terminal", "text": printed})
    return [*messages, {"type": "assistant", "text": "All of it is done.", "model": MODEL}]


def _insert_session(
    db: apsw.Connection, session: str, n: int, *, at: float, messages: list[dict[str, Any]]
) -> None:
    platform, turn = PLATFORMS[n % 5], f"turn_{n:027d}"
    route = f"{platform}:default:dm:chat{n}:"
    owner = f"{platform}:default:person{n % 300}"
    started_at = at - len(messages)
    db.execute(
        "INSERT INTO sessions (id, route, title, created_at, active_at, principal)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (session, route, f"{TITLES[n % 5]} ({n})", started_at, at, owner),
    )
    db.execute("INSERT INTO routes (key, session_id) VALUES (?, ?)", (route, session))
    db.execute(
        "INSERT INTO turns (id, session_id, state, input_tokens, output_tokens, cached_tokens,"
        " started_at, ended_at) VALUES (?, ?, 'answered', ?, ?, ?, ?, ?)",
        (
            turn,
            session,
            900 * len(messages),
            40 * len(messages),
            600 * len(messages),
            started_at,
            at,
        ),
    )
    db.executemany(
        "INSERT INTO messages (session_id, seq, turn_id, created_at, body) VALUES (?, ?, ?, ?, ?)",
        [
            (session, seq, turn, started_at + seq, json.dumps(body, separators=(",", ":")))
            for seq, body in enumerate(messages, 1)
        ],
    )
    db.executemany(
        "INSERT INTO steps (turn_id, seq, session_id, kind, call_id, message_seq, input_tokens,"
        " output_tokens, cached_tokens, started_at, finished_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            _step_row(turn, session, seq, body, started_at)
            for seq, body in enumerate(messages[1:], 1)
        ],
    )


def _step_row(
    turn: str, session: str, seq: int, body: dict[str, Any], started_at: float
) -> tuple[str | float | None, ...]:
    reply = body["type"] == "assistant"
    used = (900, 40, 600) if reply else (0, 0, 0)
    at = started_at + seq + 1
    kind = "model" if reply else "tool"
    return (turn, seq, session, kind, body.get("call_id"), seq + 1, *used, at, at)
