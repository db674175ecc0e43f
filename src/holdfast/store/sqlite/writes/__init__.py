"""Writes: what each command does to the tables; plain functions over a cursor, run inside a
transaction."""
