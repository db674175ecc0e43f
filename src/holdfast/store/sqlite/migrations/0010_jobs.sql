-- Jobs: what agents are to do at certain times, and each of those times as a run.

-- `key` is what asked for it: asked again, after a crash, it is the same job. `next_due` NULL:
-- it is over. `body` is the whole JobSpec.
CREATE TABLE jobs (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    key       TEXT NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    paused    INTEGER NOT NULL DEFAULT 0,
    next_due  INTEGER,
    made_at   REAL NOT NULL,
    body      TEXT NOT NULL
) STRICT;

CREATE INDEX jobs_due ON jobs (next_due) WHERE next_due IS NOT NULL AND paused = 0;
CREATE INDEX jobs_principal ON jobs (principal);

-- A run is written down before it begins, and begins with its inbox row, whose end is its own:
-- nothing is true twice. `skipped` says why one never began.
CREATE TABLE job_runs (
    id       TEXT PRIMARY KEY,
    job_id   INTEGER NOT NULL,
    cause    TEXT NOT NULL,
    due_at   INTEGER NOT NULL,
    made_at  REAL NOT NULL,
    inbox_id INTEGER,
    skipped  TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX job_runs_job ON job_runs (job_id, due_at);
CREATE INDEX job_runs_waiting ON job_runs (due_at, job_id)
WHERE inbox_id IS NULL AND skipped IS NULL;
CREATE INDEX job_runs_inbox ON job_runs (inbox_id) WHERE inbox_id IS NOT NULL;
CREATE INDEX job_runs_made ON job_runs (made_at);
