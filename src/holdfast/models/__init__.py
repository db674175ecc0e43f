"""Voices: one connection pool, one codec an API mode, and a demo that needs no key."""
