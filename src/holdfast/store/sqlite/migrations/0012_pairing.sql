-- Pairing: who asks to be let in, and who was.

-- One request a person. Of its code there is a salted hash; an empty one was denied, and stays
-- until it would have ended, so that its person gets no other before.
CREATE TABLE pairing_requests (
    principal  TEXT PRIMARY KEY,
    address    TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    user_name  TEXT,
    salt       BLOB NOT NULL,
    digest     BLOB NOT NULL,
    asked_at   REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- People besides those of the configuration.
CREATE TABLE principals (
    principal TEXT PRIMARY KEY,
    role      TEXT NOT NULL,
    address   TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    user_name TEXT,
    since     REAL NOT NULL,
    let_in_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row: how many wrong codes were tried in a row, and until when none is taken.
CREATE TABLE pairing_tries (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    wrong        INTEGER NOT NULL,
    locked_until REAL NOT NULL
) STRICT;
