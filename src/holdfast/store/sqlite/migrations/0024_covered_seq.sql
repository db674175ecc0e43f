-- The last message that a session's summary covers, so that what follows is found without a walk
-- through all that it covers. Messages that were undone count for nothing, and a fork has gaps
-- where they were: the number of covered messages is not the place of the last of them.
ALTER TABLE compactions ADD COLUMN covered_seq INTEGER NOT NULL DEFAULT 0;
UPDATE compactions SET covered_seq = coalesce(
    (SELECT seq FROM (
        SELECT m.seq, row_number() OVER (ORDER BY m.seq) AS place FROM messages m
        WHERE m.session_id = compactions.session_id AND NOT EXISTS (SELECT 1 FROM undone u
        WHERE u.session_id = m.session_id AND m.seq BETWEEN u.from_seq AND u.to_seq)
    ) WHERE place = compactions.covers),
    CASE WHEN covers > 0 THEN seq ELSE 0 END);
