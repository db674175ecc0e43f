"""Judging: what a shell command would do, read from its grammar before it runs."""
