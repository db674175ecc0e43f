-- Turns that were answered, and the memory providers that have not been told of them. Written by
-- the commit that answers, where a provider wants to hear of turns; gone before it is told.
CREATE TABLE unsynced (
    turn_id    TEXT NOT NULL,
    provider   TEXT NOT NULL,
    session_id TEXT NOT NULL,
    owner      TEXT NOT NULL,
    PRIMARY KEY (turn_id, provider)
) STRICT;

CREATE INDEX unsynced_session ON unsynced (session_id);
