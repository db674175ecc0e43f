-- Children: agents that work for another. A child is a session; this says whose, and which
-- message it works on. `body` is the whole Child, as its inbox row has it.

CREATE TABLE children (
    session_id TEXT PRIMARY KEY,
    parent_id  TEXT NOT NULL,
    inbox_id   INTEGER NOT NULL,
    created_at REAL NOT NULL,
    body       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX children_parent ON children (parent_id, created_at);
