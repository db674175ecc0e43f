-- Configurations: every one that was in force, numbered, so that it can be seen and gone back to.

-- `text` is holdfast.toml as it was, with references in the place of secrets. Of what else was in
-- force (variables, the secrets themselves) there is the signature.
CREATE TABLE configurations (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    at        REAL NOT NULL,
    by        TEXT NOT NULL,
    source    TEXT NOT NULL,
    text      TEXT NOT NULL,
    changed   TEXT NOT NULL,
    signature TEXT NOT NULL
) STRICT;

-- What was in force is a fact: nothing of it is changed or forgotten.
CREATE TRIGGER configurations_stay BEFORE UPDATE ON configurations
BEGIN SELECT RAISE(ABORT, 'a configuration that was kept is never changed'); END;
CREATE TRIGGER configurations_are_kept BEFORE DELETE ON configurations
BEGIN SELECT RAISE(ABORT, 'a configuration that was kept is never forgotten'); END;
