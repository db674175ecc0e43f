-- Files: deliveries that hand a file of a workspace to people; `file` says whose and which.

ALTER TABLE outbox ADD COLUMN file TEXT;
