-- Minutes: what the gateway did in each of the last day in which it did anything, for its charts.

CREATE TABLE minutes (
    at   INTEGER PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;
