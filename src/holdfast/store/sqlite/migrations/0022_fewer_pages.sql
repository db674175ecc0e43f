-- Fewer pages to write for each turn, and one more list that reads only what it shows.

-- Suspended sessions, which are few among many.
CREATE INDEX sessions_suspended ON sessions (id) WHERE suspended = 1;

-- Answered messages are nearly all there are. They are found by the list of their turn, and by
-- walking back.
DROP INDEX inbox_ended;
CREATE INDEX inbox_ended ON inbox (state, ended_at)
WHERE ended_at IS NOT NULL AND state <> 'answered';

-- A delivery of a turn is found by the turn.
DROP INDEX outbox_inbox;
CREATE INDEX outbox_inbox ON outbox (inbox_id) WHERE inbox_id IS NOT NULL AND turn_id IS NULL;

-- `row_counts` counts the ended messages and sent deliveries (see 0020) up to the number `counted`.
-- Those after it are counted when asked for; the triggers move `counted` with each thousandth row.
-- So a turn does not change the counts. Only earlier rows that are inserted, end, change or are
-- deleted do.
CREATE TABLE counted (
    name TEXT PRIMARY KEY, -- the table
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counted SELECT 'inbox', coalesce(max(id), 0) FROM inbox;
INSERT INTO counted SELECT 'outbox', coalesce(max(seq), 0) FROM outbox;

DROP TRIGGER count_inbox_insert;
DROP TRIGGER count_inbox_end;
DROP TRIGGER count_inbox_change;
DROP TRIGGER count_inbox_delete;
CREATE TRIGGER count_inbox_insert AFTER INSERT ON inbox
WHEN NEW.ended_at IS NOT NULL AND NEW.id <= (SELECT last FROM counted WHERE name = 'inbox') BEGIN
INSERT INTO row_counts VALUES ('inbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_inbox_rows AFTER INSERT ON inbox
WHEN NEW.id % 1000 = 0 AND NEW.id > (SELECT last FROM counted WHERE name = 'inbox') BEGIN
INSERT INTO row_counts
SELECT 'inbox', state, count(*) FROM inbox
WHERE id > (SELECT last FROM counted WHERE name = 'inbox') AND id < NEW.id
AND ended_at IS NOT NULL GROUP BY state
ON CONFLICT DO UPDATE SET count = count + excluded.count;
UPDATE counted SET last = NEW.id - 1 WHERE name = 'inbox'; END;
CREATE TRIGGER count_inbox_end AFTER UPDATE OF state, ended_at ON inbox
WHEN NEW.ended_at IS NOT NULL AND NEW.id <= (SELECT last FROM counted WHERE name = 'inbox') BEGIN
INSERT INTO row_counts VALUES ('inbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_inbox_change AFTER UPDATE OF state, ended_at ON inbox
WHEN OLD.ended_at IS NOT NULL AND OLD.id <= (SELECT last FROM counted WHERE name = 'inbox') BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'inbox' AND state = OLD.state; END;
CREATE TRIGGER count_inbox_delete AFTER DELETE ON inbox
WHEN OLD.ended_at IS NOT NULL AND OLD.id <= (SELECT last FROM counted WHERE name = 'inbox') BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'inbox' AND state = OLD.state; END;

DROP TRIGGER count_outbox_insert;
DROP TRIGGER count_outbox_sent;
DROP TRIGGER count_outbox_change;
DROP TRIGGER count_outbox_delete;
CREATE TRIGGER count_outbox_insert AFTER INSERT ON outbox
WHEN NEW.state = 'sent' AND NEW.seq <= (SELECT last FROM counted WHERE name = 'outbox') BEGIN
INSERT INTO row_counts VALUES ('outbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_outbox_rows AFTER INSERT ON outbox
WHEN NEW.seq % 1000 = 0 AND NEW.seq > (SELECT last FROM counted WHERE name = 'outbox') BEGIN
INSERT INTO row_counts
SELECT 'outbox', state, count(*) FROM outbox
WHERE seq > (SELECT last FROM counted WHERE name = 'outbox') AND seq < NEW.seq
AND state = 'sent' GROUP BY state
ON CONFLICT DO UPDATE SET count = count + excluded.count;
UPDATE counted SET last = NEW.seq - 1 WHERE name = 'outbox'; END;
CREATE TRIGGER count_outbox_sent AFTER UPDATE OF state ON outbox
WHEN NEW.state = 'sent' AND NEW.seq <= (SELECT last FROM counted WHERE name = 'outbox') BEGIN
INSERT INTO row_counts VALUES ('outbox', NEW.state, 1)
ON CONFLICT DO UPDATE SET count = count + 1; END;
CREATE TRIGGER count_outbox_change AFTER UPDATE OF state ON outbox
WHEN OLD.state = 'sent' AND OLD.seq <= (SELECT last FROM counted WHERE name = 'outbox') BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'outbox' AND state = OLD.state; END;
CREATE TRIGGER count_outbox_delete AFTER DELETE ON outbox
WHEN OLD.state = 'sent' AND OLD.seq <= (SELECT last FROM counted WHERE name = 'outbox') BEGIN
UPDATE row_counts SET count = count - 1 WHERE name = 'outbox' AND state = OLD.state; END;
