-- Usage and sessions of a person or a chat, read without a look at all that they have.

-- The hour of `active_at`, for lists in the order of activity: the indexes that have it change at
-- most once an hour for each session, not with every turn. Triggers correct what a write says.
ALTER TABLE sessions ADD COLUMN active_hour INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET active_hour = CAST(active_at / 3600 AS INTEGER);

CREATE TRIGGER session_hour_insert AFTER INSERT ON sessions
WHEN NEW.active_hour <> CAST(NEW.active_at / 3600 AS INTEGER) BEGIN
UPDATE sessions SET active_hour = CAST(active_at / 3600 AS INTEGER) WHERE id = NEW.id; END;
CREATE TRIGGER session_hour_change AFTER UPDATE OF active_at ON sessions
WHEN NEW.active_hour <> CAST(NEW.active_at / 3600 AS INTEGER) BEGIN
UPDATE sessions SET active_hour = CAST(active_at / 3600 AS INTEGER) WHERE id = NEW.id; END;

DROP INDEX sessions_principal;
CREATE INDEX sessions_principal ON sessions (principal, active_hour) WHERE principal IS NOT NULL;
DROP INDEX sessions_route;
CREATE INDEX sessions_route ON sessions (route, active_hour);
-- A route begins with its platform and a colon.
CREATE INDEX sessions_platform
ON sessions (substr(route, 1, instr(route, ':')), (ended_at IS NOT NULL), active_hour);

-- The conversation that a subagent works for, directly or through other subagents.
ALTER TABLE children ADD COLUMN root_id TEXT;
WITH RECURSIVE below (id, root) AS (
    SELECT session_id, parent_id FROM children
    WHERE parent_id NOT IN (SELECT session_id FROM children)
    UNION ALL SELECT c.session_id, b.root FROM children c JOIN below b ON c.parent_id = b.id
)
UPDATE children SET root_id = below.root FROM below WHERE below.id = children.session_id;
DROP INDEX children_parent;
CREATE INDEX children_root ON children (root_id, parent_id);
CREATE TRIGGER subagent_root AFTER INSERT ON children WHEN NEW.root_id IS NULL BEGIN
UPDATE children SET root_id = coalesce(
    (SELECT root_id FROM children WHERE session_id = NEW.parent_id), NEW.parent_id)
WHERE session_id = NEW.session_id; END;

-- Usage is counted up to the turn and the session of `usage_mark`: of turns with ids up to that
-- one, and of auxiliary calls of sessions with ids up to that one. Ids rise with time, so what is
-- later is added when it is asked for, and a turn changes no sums. The mark moves with
-- `counted`, every thousand messages. A turn or call that is added to what is counted changes it at
-- once: one that was open when the mark moved, or one of an older session.
CREATE TABLE usage_mark (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    turn    TEXT NOT NULL,
    session TEXT NOT NULL
) STRICT;
INSERT INTO usage_mark VALUES (1, '', '');

-- What each session has used, and whose and where it is: for a subagent, the conversation that it
-- works for. The row goes with its session, so the deletion of turns changes nothing here.
CREATE TABLE usage_counted (
    session_id       TEXT PRIMARY KEY,
    root_id          TEXT, -- of a subagent
    principal        TEXT,
    route            TEXT NOT NULL,
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The sums of `usage_counted`: of each person, of each person in each chat, and of the subagents of
-- each conversation.
CREATE TABLE usage_sums (
    place            TEXT NOT NULL, -- '', a route, or the id of the conversation
    principal        TEXT NOT NULL, -- '': nobody's alone
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (place, principal)
) STRICT, WITHOUT ROWID;

-- What is inserted into these two tables is added to the rows of the two above. They stay empty:
-- they are for the triggers below. They are no views, because SQLite does not look for lost pages
-- in a file whose schema lists a view first.
CREATE TABLE added_usage (
    session_id       TEXT NOT NULL,
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL
) STRICT;
CREATE TRIGGER add_usage BEFORE INSERT ON added_usage BEGIN
INSERT INTO usage_counted
SELECT NEW.session_id, root_id, principal, route, NEW.input_tokens, NEW.output_tokens,
    NEW.cached_tokens, NEW.reasoning_tokens
FROM sessions LEFT JOIN children ON session_id = NEW.session_id
WHERE id = coalesce((SELECT root_id FROM children WHERE session_id = NEW.session_id),
    NEW.session_id)
ON CONFLICT DO UPDATE SET input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens;
SELECT RAISE(IGNORE); END;

CREATE TABLE summed_usage (
    root_id          TEXT,
    principal        TEXT,
    route            TEXT NOT NULL,
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL
) STRICT;
CREATE TRIGGER sum_usage BEFORE INSERT ON summed_usage BEGIN
INSERT INTO usage_sums
SELECT place, principal, NEW.input_tokens, NEW.output_tokens, NEW.cached_tokens,
    NEW.reasoning_tokens
FROM (SELECT '' AS place, NEW.principal AS principal
    UNION ALL SELECT NEW.route, coalesce(NEW.principal, '') UNION ALL SELECT NEW.root_id, '')
WHERE place IS NOT NULL AND principal IS NOT NULL AND
    (NEW.input_tokens OR NEW.output_tokens OR NEW.cached_tokens OR NEW.reasoning_tokens)
ON CONFLICT DO UPDATE SET input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens;
SELECT RAISE(IGNORE); END;

CREATE TRIGGER sum_usage_insert AFTER INSERT ON usage_counted BEGIN
INSERT INTO summed_usage VALUES (NEW.root_id, NEW.principal, NEW.route, NEW.input_tokens,
    NEW.output_tokens, NEW.cached_tokens, NEW.reasoning_tokens); END;
CREATE TRIGGER sum_usage_change AFTER UPDATE ON usage_counted BEGIN
INSERT INTO summed_usage VALUES (NEW.root_id, NEW.principal, NEW.route, NEW.input_tokens,
    NEW.output_tokens, NEW.cached_tokens, NEW.reasoning_tokens);
INSERT INTO summed_usage VALUES (OLD.root_id, OLD.principal, OLD.route, -OLD.input_tokens,
    -OLD.output_tokens, -OLD.cached_tokens, -OLD.reasoning_tokens); END;
CREATE TRIGGER sum_usage_delete AFTER DELETE ON usage_counted BEGIN
INSERT INTO summed_usage VALUES (OLD.root_id, OLD.principal, OLD.route, -OLD.input_tokens,
    -OLD.output_tokens, -OLD.cached_tokens, -OLD.reasoning_tokens); END;
-- A sum of nothing goes: it names a chat and a person.
CREATE TRIGGER sum_of_nothing AFTER UPDATE ON usage_sums
WHEN NOT (NEW.input_tokens OR NEW.output_tokens OR NEW.cached_tokens OR NEW.reasoning_tokens)
BEGIN DELETE FROM usage_sums WHERE place = NEW.place AND principal = NEW.principal; END;

CREATE TRIGGER count_usage AFTER UPDATE ON counted WHEN NEW.name = 'inbox' BEGIN
INSERT INTO added_usage
SELECT session_id, sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(reasoning_tokens)
FROM (
    SELECT session_id, input_tokens, output_tokens, cached_tokens, reasoning_tokens
    FROM turns WHERE id > (SELECT turn FROM usage_mark)
    UNION ALL
    SELECT session_id, input_tokens, output_tokens, cached_tokens, reasoning_tokens
    FROM auxiliary WHERE session_id > (SELECT session FROM usage_mark)
) GROUP BY +session_id;
UPDATE usage_mark SET turn = max(turn, coalesce((SELECT max(id) FROM turns), '')),
    session = max(session, coalesce((SELECT max(session_id) FROM auxiliary), '')); END;
CREATE TRIGGER count_turn_usage
AFTER UPDATE OF input_tokens, output_tokens, cached_tokens, reasoning_tokens ON turns
WHEN NEW.id <= (SELECT turn FROM usage_mark) BEGIN
INSERT INTO added_usage VALUES (NEW.session_id, NEW.input_tokens - OLD.input_tokens,
    NEW.output_tokens - OLD.output_tokens, NEW.cached_tokens - OLD.cached_tokens,
    NEW.reasoning_tokens - OLD.reasoning_tokens); END;
CREATE TRIGGER count_auxiliary_insert AFTER INSERT ON auxiliary
WHEN NEW.session_id <= (SELECT session FROM usage_mark) BEGIN
INSERT INTO added_usage VALUES (NEW.session_id, NEW.input_tokens, NEW.output_tokens,
    NEW.cached_tokens, NEW.reasoning_tokens); END;
CREATE TRIGGER count_auxiliary_change AFTER UPDATE ON auxiliary
WHEN NEW.session_id <= (SELECT session FROM usage_mark) BEGIN
INSERT INTO added_usage VALUES (NEW.session_id, NEW.input_tokens - OLD.input_tokens,
    NEW.output_tokens - OLD.output_tokens, NEW.cached_tokens - OLD.cached_tokens,
    NEW.reasoning_tokens - OLD.reasoning_tokens); END;
CREATE TRIGGER count_usage_elsewhere AFTER UPDATE OF principal, route ON sessions
WHEN NEW.principal IS NOT OLD.principal OR NEW.route <> OLD.route BEGIN
UPDATE usage_counted SET principal = NEW.principal, route = NEW.route WHERE session_id IN
    (SELECT NEW.id WHERE NOT EXISTS (SELECT 1 FROM children WHERE session_id = NEW.id)
    UNION ALL SELECT session_id FROM children WHERE root_id = NEW.id); END;

UPDATE counted SET last = last WHERE name = 'inbox'; -- counts what there is

-- What the turns of a session have used, by model, up to the message `through`. The rows of a
-- session are written when its price is asked for and many later messages would have to be read.
CREATE TABLE model_usage (
    session_id       TEXT NOT NULL,
    model            TEXT NOT NULL, -- '': unknown
    through          INTEGER NOT NULL, -- the same in all rows of a session
    input_tokens     INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (session_id, model)
) STRICT, WITHOUT ROWID;

-- Its SQL is in rows.py now.
DROP VIEW standing;
