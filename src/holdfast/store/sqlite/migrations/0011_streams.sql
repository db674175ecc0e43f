-- Streams: deliveries that are shown before they are whole, and those of several messages.

-- A delivery has rows here only where it has several parts, or was begun before its text was
-- there (its state is `streaming` until then). `final`: the platform shows the words that the
-- part is to end with. What a part says is the delivery's text, cut again in the same way.
CREATE TABLE parts (
    delivery_id         TEXT NOT NULL,
    number              INTEGER NOT NULL,
    session_id          TEXT,
    state               TEXT NOT NULL,
    final               INTEGER NOT NULL DEFAULT 0,
    doubtful            INTEGER NOT NULL DEFAULT 0,
    resends             INTEGER NOT NULL DEFAULT 0,
    platform_message_id TEXT,
    error               TEXT NOT NULL DEFAULT '',
    updated_at          REAL NOT NULL,
    PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
