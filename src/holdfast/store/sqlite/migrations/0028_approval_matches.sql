-- All rules that fired on a command, and what a standing approval is bound to.

-- A JSON list of rules with reason, part and target. Approvals from before have the one in `rule`
-- and can only be approved once.
ALTER TABLE approvals ADD COLUMN matches TEXT NOT NULL DEFAULT '[]';
ALTER TABLE approvals ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- Standing approvals from before name no program and no path (NULL), and apply to nothing: the
-- next start withdraws them. Those for a chat name it in their rule; they stay for 30 days.
ALTER TABLE approval_rules ADD COLUMN target TEXT;
ALTER TABLE approval_rules ADD COLUMN expires_at REAL NOT NULL DEFAULT 0;
UPDATE approval_rules SET target = '', expires_at = unixepoch() + 30 * 86400
WHERE rule LIKE 'send to %';
