"""Slash commands: requests to the gateway itself, also while a turn runs."""
