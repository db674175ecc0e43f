-- What a message does to a running turn, where /busy chose it for one session. Apart from
-- `sessions`: few choose, and it is asked for with every message.
CREATE TABLE busy (
    session_id TEXT PRIMARY KEY,
    mode       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
