"""Codecs, one per API mode: from a request to bytes, and from bytes to events."""
