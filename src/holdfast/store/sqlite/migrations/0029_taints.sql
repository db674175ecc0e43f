-- The sources of external content in each session. A row outlives the message that brought it.

CREATE TABLE taints (
    session_id TEXT NOT NULL,
    label      TEXT NOT NULL, -- where it came from, as people are shown it
    principal  TEXT NOT NULL, -- the person who wrote it; '': not a person of the conversation
    seq        INTEGER NOT NULL, -- of the first message with it
    added_at   REAL NOT NULL,
    PRIMARY KEY (session_id, label, principal)
) STRICT, WITHOUT ROWID;
