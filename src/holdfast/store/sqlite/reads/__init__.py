"""Queries: plain functions over a cursor, each in one snapshot."""
