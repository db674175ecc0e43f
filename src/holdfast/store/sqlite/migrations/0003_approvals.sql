-- Approvals: what waits for a person's word, and the words that stand.

CREATE TABLE approvals (
    id          TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL,
    asked_in    TEXT NOT NULL, -- the session whose people are asked
    turn_id     TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    number      INTEGER NOT NULL,
    tool        TEXT NOT NULL,
    command     TEXT NOT NULL,
    rule        TEXT NOT NULL,
    why         TEXT NOT NULL,
    requester   TEXT NOT NULL,
    approvers   TEXT NOT NULL, -- a JSON list of principals
    delivery_id TEXT NOT NULL,
    asked_at    REAL NOT NULL,
    deadline    REAL NOT NULL,
    state       TEXT NOT NULL,
    scope       TEXT NOT NULL DEFAULT 'once',
    said_by     TEXT NOT NULL DEFAULT '',
    words       TEXT NOT NULL DEFAULT '',
    ended_at    REAL
) STRICT, WITHOUT ROWID;

-- One question a call: a second one is refused by the index itself.
CREATE UNIQUE INDEX approvals_call ON approvals (turn_id, call_id);
CREATE INDEX approvals_session ON approvals (session_id, asked_at);
CREATE INDEX approvals_asked ON approvals (asked_at);
-- Looked at by every end of a turn, and nearly always empty.
CREATE INDEX approvals_pending ON approvals (turn_id) WHERE state = 'pending';

CREATE TABLE approval_rules (
    id         TEXT PRIMARY KEY,
    scope      TEXT NOT NULL,
    session_id TEXT NOT NULL,
    principal  TEXT NOT NULL,
    rule       TEXT NOT NULL,
    why        TEXT NOT NULL,
    said_by    TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX approval_rules_for ON approval_rules (principal, rule);

ALTER TABLE outbox ADD COLUMN choices TEXT;
