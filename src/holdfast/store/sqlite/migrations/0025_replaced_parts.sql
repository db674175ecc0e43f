-- Why the message of a part could not be edited any more, so that its final text was sent as a new
-- message; empty as long as there is one message.
ALTER TABLE parts ADD COLUMN replaced TEXT NOT NULL DEFAULT '';
