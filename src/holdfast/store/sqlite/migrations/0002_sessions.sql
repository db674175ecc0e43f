-- Sessions: whose they are, why one is fresh, what is to be resumed, and what was taken back.
--
-- All of it may be NULL: a session from before has no owner and nothing pending. The time of a
-- mark is of no type, so that a file that was mended by hand still opens; what is no time is
-- read as none.

ALTER TABLE sessions ADD COLUMN principal TEXT;
ALTER TABLE sessions ADD COLUMN resume_pending INTEGER;
ALTER TABLE sessions ADD COLUMN resume_reason TEXT;
ALTER TABLE sessions ADD COLUMN last_resume_marked_at ANY;
ALTER TABLE sessions ADD COLUMN auto_reset_reason TEXT;
ALTER TABLE sessions ADD COLUMN auto_reset_told INTEGER;
ALTER TABLE sessions ADD COLUMN previous_id TEXT;

-- By what configuration a prompt was made; '': nobody knows, and it stands.
ALTER TABLE prompts ADD COLUMN shape TEXT NOT NULL DEFAULT '';

CREATE INDEX sessions_principal ON sessions (principal) WHERE principal IS NOT NULL;
CREATE INDEX sessions_route ON sessions (route);
CREATE INDEX routes_session ON routes (session_id);
CREATE INDEX turns_session ON turns (session_id);

-- What a user took back stays where it was; it is only no part of the conversation any more.
CREATE TABLE undone (
    session_id TEXT NOT NULL,
    from_seq   INTEGER NOT NULL,
    to_seq     INTEGER NOT NULL,
    undone_at  REAL NOT NULL,
    PRIMARY KEY (session_id, from_seq)
) STRICT, WITHOUT ROWID;

-- The conversation as it stands: what a model is shown, and what a fork copies.
CREATE VIEW standing AS
SELECT m.session_id, m.seq, m.turn_id, m.created_at, m.body
FROM messages m
WHERE NOT EXISTS (
    SELECT 1 FROM undone u
    WHERE u.session_id = m.session_id AND m.seq BETWEEN u.from_seq AND u.to_seq
);
