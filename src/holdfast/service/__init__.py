"""The ground: lock, clock, logs, and the process itself."""
