"""People: approvals, pairing, memory, chat commands and the audit log."""
