"""The store on SQLite: one file, one writer thread with group commit, reader threads."""
