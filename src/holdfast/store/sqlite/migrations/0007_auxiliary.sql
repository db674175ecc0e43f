-- Compaction and auxiliary calls: where a session's context begins, and what they cost.

-- Where a session's last summary stands and how many messages it covers, so that an agent is
-- built without reading what no model is shown any more. A row whose record is gone counts for
-- nothing: `messages` is the truth.
CREATE TABLE compactions (
    session_id TEXT PRIMARY KEY,
    seq        INTEGER NOT NULL,
    covers     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was used outside of any turn, by errand: titles, summaries asked for by a command.
CREATE TABLE auxiliary (
    session_id       TEXT NOT NULL,
    errand           TEXT NOT NULL,
    calls            INTEGER NOT NULL,
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (session_id, errand)
) STRICT, WITHOUT ROWID;
