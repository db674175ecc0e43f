-- More that keeps reads as cheap as their answers (see 0020).

-- Which sessions have changed messages, in the order of the changes: the search index reads on from
-- the last row that it has seen. Several changes in a row of one session are one row. `token`
-- shows whether a row is still the one that was seen, or one of the same number in another copy of
-- the file. `session` is no `session_id`, by which the rows of a session that is deleted are found:
-- the index must learn of that, too, and the id is removed after it has. Only the last rows are
-- kept; an index that has seen none of them is compared with all sessions.
CREATE TABLE message_changes (
    number    INTEGER PRIMARY KEY,
    session   TEXT NOT NULL,
    rewritten INTEGER NOT NULL DEFAULT 0, -- messages were changed or deleted, not only added
    token     INTEGER NOT NULL DEFAULT (random())
) STRICT;
INSERT INTO message_changes (session) VALUES ('');

CREATE TRIGGER message_added AFTER INSERT ON messages
WHEN NEW.session_id IS NOT (SELECT session FROM message_changes ORDER BY number DESC LIMIT 1)
BEGIN INSERT INTO message_changes (session) VALUES (NEW.session_id); END;
CREATE TRIGGER message_changed AFTER UPDATE ON messages
BEGIN INSERT INTO message_changes (session, rewritten) VALUES (OLD.session_id, 1); END;
-- The messages of a deleted session go after it, and need no rows of their own.
CREATE TRIGGER message_deleted AFTER DELETE ON messages
WHEN EXISTS (SELECT 1 FROM sessions WHERE id = OLD.session_id)
BEGIN INSERT INTO message_changes (session, rewritten) VALUES (OLD.session_id, 1); END;
CREATE TRIGGER session_deleted AFTER DELETE ON sessions
BEGIN INSERT INTO message_changes (session) VALUES (OLD.id); END;
CREATE TRIGGER old_message_changes AFTER INSERT ON message_changes WHEN NEW.number % 1000 = 0
BEGIN DELETE FROM message_changes WHERE number <= NEW.number - 100000; END;

-- The messages that a turn has taken, as a JSON list in its row, which is written anyway. The index
-- has the messages of a session that no turn lists: commands, what waits for its turn, and what was
-- taken before there was a list. Both are for the deletion of the session.
ALTER TABLE turns ADD COLUMN inbox_ids TEXT;
ALTER TABLE inbox ADD COLUMN listed INTEGER;
CREATE INDEX inbox_unlisted ON inbox (session_id) WHERE session_id IS NOT NULL AND listed IS NULL;
CREATE INDEX approval_rules_session ON approval_rules (session_id);

-- Deliveries of one platform, in the order of their numbers. What is no JSON, in a file that was
-- mended by hand, can still be stored.
CREATE INDEX outbox_platform ON outbox (iif(json_valid(address), address ->> '$.platform', NULL));
