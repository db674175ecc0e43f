-- The audit: who asked, who allowed it, what was done, and with what effect. Only added to.

-- `hash` is over the row and over the hash of the row before it, so that a row which was changed,
-- taken out or put in breaks the chain. The sessions and turns that are named here may be gone:
-- these columns are no `session_id`, by which the rows of a session that is deleted are found.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    at      REAL NOT NULL,
    kind    TEXT NOT NULL,
    actor   TEXT NOT NULL,
    session TEXT,
    turn    TEXT,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    facts   TEXT NOT NULL,
    words   TEXT, -- the salted digest of what `audit_words` has of it
    hash    BLOB NOT NULL
) STRICT;

CREATE INDEX audit_kind ON audit (kind);
CREATE INDEX audit_session ON audit (session) WHERE session IS NOT NULL;
CREATE INDEX audit_turn ON audit (turn) WHERE turn IS NOT NULL;

-- What was said goes with its session; that it was said, by whom and with what effect, does not.
CREATE TABLE audit_words (
    seq        INTEGER PRIMARY KEY,
    session_id TEXT,
    salt       TEXT NOT NULL,
    body       TEXT NOT NULL
) STRICT;

CREATE INDEX audit_words_session ON audit_words (session_id) WHERE session_id IS NOT NULL;

-- The one door out: rows up to this one may be forgotten, for their age.
CREATE TABLE audit_pruned (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END;
-- Without this, INSERT OR REPLACE would change a row and fire nothing.
CREATE TRIGGER audit_is_added_to BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.seq > coalesce((SELECT seq FROM audit_pruned), 0)
BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END;

CREATE TRIGGER audit_words_stay BEFORE UPDATE ON audit_words
BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END;
CREATE TRIGGER audit_words_are_kept BEFORE DELETE ON audit_words
WHEN OLD.seq > coalesce((SELECT seq FROM audit_pruned), 0)
    AND (OLD.session_id IS NULL OR EXISTS (SELECT 1 FROM sessions WHERE id = OLD.session_id))
BEGIN SELECT RAISE(ABORT, 'the words of the audit go with their session, or with their row'); END;

CREATE TRIGGER audit_pruned_stays BEFORE UPDATE ON audit_pruned
WHEN NEW.seq <= OLD.seq
BEGIN SELECT RAISE(ABORT, 'what was forgotten of the audit stays so'); END;
CREATE TRIGGER audit_pruned_is_kept BEFORE DELETE ON audit_pruned
BEGIN SELECT RAISE(ABORT, 'what was forgotten of the audit stays so'); END;

-- Who asked for what a turn does, and by what a call that may be dangerous was let run.
ALTER TABLE turns ADD COLUMN asked_by TEXT NOT NULL DEFAULT '';
ALTER TABLE steps ADD COLUMN allowed TEXT;
