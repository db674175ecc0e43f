"""The life of a process: how it starts, what it stands on, how it stops, and who follows it."""
