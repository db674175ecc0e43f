-- Quiet: the chats of which somebody has said whether they get answers and nothing else.

CREATE TABLE quiet_chats (
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    chat_id  TEXT NOT NULL,
    quiet    INTEGER NOT NULL,
    set_by   TEXT NOT NULL,
    at       REAL NOT NULL,
    PRIMARY KEY (platform, account, chat_id)
) STRICT, WITHOUT ROWID;
