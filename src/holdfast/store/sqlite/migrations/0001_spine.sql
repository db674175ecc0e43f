-- The spine: a message in, a turn with its steps, a delivery out.
--
-- Each row that belongs to a session carries its id. Content lives in `messages` alone:
-- steps name a message by its seq, and a delivery without a text is the last assistant
-- message of its turn. Times are seconds since the epoch. No foreign keys: the commands
-- check what they need, and the schema can be distributed by session.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE routes (
    key        TEXT PRIMARY KEY,
    session_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id             TEXT PRIMARY KEY,
    route          TEXT NOT NULL,
    model_override TEXT,
    cuts           INTEGER NOT NULL DEFAULT 0,
    suspended      INTEGER NOT NULL DEFAULT 0,
    title          TEXT NOT NULL DEFAULT '',
    created_at     REAL NOT NULL,
    active_at      REAL NOT NULL,
    ended_at       REAL
) STRICT, WITHOUT ROWID;

-- Apart from `sessions`, whose rows change with every turn and are listed by the thousand,
-- while a prompt is kilobytes and never changes.
CREATE TABLE prompts (
    session_id TEXT PRIMARY KEY,
    text       TEXT NOT NULL
) STRICT;

CREATE TABLE messages (
    session_id TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    turn_id    TEXT,
    created_at REAL NOT NULL,
    body       TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    id               TEXT PRIMARY KEY,
    session_id       TEXT NOT NULL,
    state            TEXT NOT NULL,
    input_tokens     INTEGER NOT NULL DEFAULT 0,
    output_tokens    INTEGER NOT NULL DEFAULT 0,
    cached_tokens    INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    reason           TEXT NOT NULL DEFAULT '',
    started_at       REAL NOT NULL,
    ended_at         REAL
) STRICT, WITHOUT ROWID;

-- One session, one turn at a time: a second open one is refused by the index itself.
CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE state = 'open';

CREATE TABLE steps (
    turn_id          TEXT NOT NULL,
    seq              INTEGER NOT NULL,
    session_id       TEXT NOT NULL,
    kind             TEXT NOT NULL,
    call_id          TEXT,
    message_seq      INTEGER,
    input_tokens     INTEGER NOT NULL DEFAULT 0,
    output_tokens    INTEGER NOT NULL DEFAULT 0,
    cached_tokens    INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    started_at       REAL NOT NULL,
    finished_at      REAL,
    PRIMARY KEY (turn_id, seq)
) STRICT, WITHOUT ROWID;

-- `body` is the whole Inbound; platform, account and event_id are drawn out of it for the
-- index that makes an event count once. Neither ever changes.
CREATE TABLE inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    platform    TEXT NOT NULL,
    account     TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    route       TEXT NOT NULL,
    principal   TEXT NOT NULL,
    state       TEXT NOT NULL,
    decision    TEXT,
    session_id  TEXT,
    turn_id     TEXT,
    merged_into INTEGER,
    reason      TEXT NOT NULL DEFAULT '',
    accepted_at REAL NOT NULL,
    ended_at    REAL,
    body        TEXT NOT NULL,
    UNIQUE (platform, account, event_id)
) STRICT;

-- What is open is little and is asked for often; what has ended is only counted.
CREATE INDEX inbox_open ON inbox (route) WHERE ended_at IS NULL;
CREATE INDEX inbox_ended ON inbox (state, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE cursors (
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (platform, account, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    id                  TEXT NOT NULL UNIQUE,
    address             TEXT NOT NULL,
    kind                TEXT NOT NULL,
    text                TEXT,
    session_id          TEXT,
    turn_id             TEXT,
    inbox_id            INTEGER,
    state               TEXT NOT NULL,
    attempts            INTEGER NOT NULL DEFAULT 0,
    doubtful            INTEGER NOT NULL DEFAULT 0,
    resends             INTEGER NOT NULL DEFAULT 0,
    platform_message_id TEXT,
    error               TEXT NOT NULL DEFAULT '',
    expires_at          REAL,
    created_at          REAL NOT NULL,
    updated_at          REAL NOT NULL
) STRICT;

CREATE INDEX outbox_state ON outbox (state);
CREATE INDEX outbox_inbox ON outbox (inbox_id) WHERE inbox_id IS NOT NULL;
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE runners (
    session_id TEXT PRIMARY KEY,
    pid        INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    outer_pid  INTEGER NOT NULL,
    sandboxed  INTEGER NOT NULL,
    started_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE processes (
    session_id TEXT NOT NULL,
    id         TEXT NOT NULL,
    command    TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at   REAL,
    exit_code  INTEGER,
    note       TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;
