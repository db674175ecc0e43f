"""Backups of a home: copied from a live store, packed into one file, verified, put back."""
