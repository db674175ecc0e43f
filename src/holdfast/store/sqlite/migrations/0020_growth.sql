-- What keeps reads as cheap as their answers, however much is stored.

-- By last activity: the list of sessions, those to expire (which have not ended) and those to prune.
CREATE INDEX sessions_active ON sessions ((ended_at IS NOT NULL), active_at DESC, id);

-- Deliveries that may still be sent, or were not. The others are nearly all there are: an index of
-- their state would be kept up for every delivery and tell nothing.
DROP INDEX outbox_state;
CREATE INDEX outbox_not_sent ON outbox (state) WHERE state <> 'sent';

-- How many ended messages there are by state, and how many sent deliveries. The others are few, and
-- are counted when asked for. Kept by triggers, so that every write counts, also future ones.
CREATE TABLE row_counts (
    name  TEXT NOT NULL, -- the table
    state TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (name, state)
) STRICT, WITHOUT ROWID;

INSERT INTO row_counts
SELECT 'inbox', state, count(*) FROM inbox WHERE ended_at IS NOT NULL GROUP BY state;
INSERT INTO row_counts
SELECT 'outbox', state, count(*) FROM outbox WHERE state = 'sent' GROUP BY state;

CREATE TRIGGER count_inbox_insert AFTER INSERT ON inbox WHEN NEW.ended_at IS NOT NULL BEGIN
INSERT INTO row_counts VALUES ('inbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_inbox_end AFTER UPDATE OF state, ended_at ON inbox
WHEN NEW.ended_at IS NOT NULL BEGIN
INSERT INTO row_counts VALUES ('inbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_inbox_change AFTER UPDATE OF state, ended_at ON inbox
WHEN OLD.ended_at IS NOT NULL BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'inbox' AND state = OLD.state; END;
CREATE TRIGGER count_inbox_delete AFTER DELETE ON inbox WHEN OLD.ended_at IS NOT NULL BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'inbox' AND state = OLD.state; END;

CREATE TRIGGER count_outbox_insert AFTER INSERT ON outbox WHEN NEW.state = 'sent' BEGIN
INSERT INTO row_counts VALUES ('outbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_outbox_sent AFTER UPDATE OF state ON outbox
WHEN NEW.state = 'sent' BEGIN
INSERT INTO row_counts VALUES ('outbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_outbox_change AFTER UPDATE OF state ON outbox
WHEN OLD.state = 'sent' BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'outbox' AND state = OLD.state; END;
CREATE TRIGGER count_outbox_delete AFTER DELETE ON outbox WHEN OLD.state = 'sent' BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'outbox' AND state = OLD.state; END;
