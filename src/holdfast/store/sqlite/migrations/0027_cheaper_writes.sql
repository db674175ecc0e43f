-- Fewer triggers on the tables that every turn writes: the code that ends a row, or adds a message,
-- does their work (`store/sqlite/totals.py`, `writes/transcript.py`).
DROP TRIGGER count_inbox_insert;
DROP TRIGGER count_inbox_rows;
DROP TRIGGER count_inbox_end;
DROP TRIGGER count_inbox_change;
DROP TRIGGER count_outbox_insert;
DROP TRIGGER count_outbox_rows;
DROP TRIGGER count_turn_usage;
DROP TRIGGER message_added;
DROP TRIGGER old_message_changes;
