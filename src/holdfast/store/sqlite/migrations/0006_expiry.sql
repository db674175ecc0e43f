-- Expiry: what may be pruned, and what is known of that which was.

-- A notice that belongs to a session, and to no turn or message of it: there are few, and they
-- are looked for when the session is deleted.
CREATE INDEX outbox_aside ON outbox (session_id)
WHERE turn_id IS NULL AND inbox_id IS NULL AND session_id IS NOT NULL;

-- How many messages of each end were pruned, so that the ledger goes on counting them.
CREATE TABLE pruned (
    state TEXT PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
