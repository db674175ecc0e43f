"""What several packages depend on: paths, clock, ids, locks, sockets, logs, tokens, exit codes."""
