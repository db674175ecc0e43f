"""The commands: what a leading slash asks of the gateway itself, past any turn that runs."""
