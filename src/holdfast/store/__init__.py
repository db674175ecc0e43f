"""The store: one SQLite file, one writer thread, group commit."""
