"""Slash commands: what is asked of the gateway itself, past any turn that runs."""
