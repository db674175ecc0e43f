-- Ends of sessions that memory providers have not processed. The row is written before a provider
-- is called, and deleted after its hook has returned: what a stop or a kill has left here is
-- reported by the next start. The id names the session and the last message that the end covers.
CREATE TABLE unreported_ends (
    session_id TEXT NOT NULL,
    provider   TEXT NOT NULL,
    owner      TEXT NOT NULL,
    end_id     TEXT NOT NULL,
    PRIMARY KEY (session_id, provider)
) STRICT;

-- Sessions that may have messages after `ended_seq`: set when an agent is built, cleared when an end
-- is requested. The index has only these.
ALTER TABLE remembered ADD COLUMN open INTEGER NOT NULL DEFAULT 1;
UPDATE remembered SET open = EXISTS (
    SELECT 1 FROM messages m WHERE m.session_id = remembered.session_id AND m.seq > ended_seq);
CREATE INDEX remembered_open ON remembered (session_id) WHERE open = 1;
