-- How processes ended, what they left, and where people are told about the gateway itself.

-- How a process left a turn that it did not end; NULL: it runs, or a crash cut it.
ALTER TABLE turns ADD COLUMN left_as TEXT;

-- The note that the next turn of a marked session is owed; NULL: none.
ALTER TABLE sessions ADD COLUMN note_owed INTEGER;

CREATE TABLE restarts (
    id          TEXT PRIMARY KEY,
    asked       TEXT NOT NULL, -- the order, as JSON
    version     TEXT NOT NULL,
    asked_at    REAL NOT NULL,
    parked      INTEGER NOT NULL DEFAULT 0,
    interrupted INTEGER NOT NULL DEFAULT 0,
    stopped_at  REAL,
    ready_at    REAL,
    told        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX restarts_asked ON restarts (asked_at);
CREATE INDEX restarts_open ON restarts (asked_at) WHERE ready_at IS NULL;

CREATE TABLE homes (
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    address  TEXT NOT NULL, -- as JSON
    set_by   TEXT,
    at       REAL NOT NULL,
    PRIMARY KEY (platform, account)
) STRICT, WITHOUT ROWID;
