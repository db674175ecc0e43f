"""Incoming messages, outgoing messages, and the transcript."""
