-- What else is known of the end of a process.

-- How many seconds each phase of the stop took, by its name, as JSON; NULL: nobody could write it.
ALTER TABLE restarts ADD COLUMN phases TEXT;

-- How many turns the successor went on with.
ALTER TABLE restarts ADD COLUMN resumed INTEGER NOT NULL DEFAULT 0;
