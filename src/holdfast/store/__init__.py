"""Memory: one SQLite file, one writer thread, group commit."""
