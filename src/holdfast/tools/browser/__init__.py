"""A browser for agents: one profile a session, confined, with a guard at its way out."""
