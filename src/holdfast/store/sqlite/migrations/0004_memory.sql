-- Memory: notes about people and their world.
--
-- A notebook belongs to an owner (a person, or a place that people share), not to a session.
-- `last_id` only rises, so that the number of a note that is gone never means another.

CREATE TABLE notebooks (
    owner   TEXT PRIMARY KEY,
    last_id INTEGER NOT NULL DEFAULT 0,
    off     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
    owner      TEXT NOT NULL,
    id         INTEGER NOT NULL,
    about      TEXT NOT NULL,
    text       TEXT NOT NULL,
    changed_at REAL NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

-- Sessions that a memory provider is to hear the end of, and up to which message it has heard
-- it: an end is told once for what was said, also where the gateway stopped in between.
CREATE TABLE remembered (
    session_id TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    ended_seq  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
