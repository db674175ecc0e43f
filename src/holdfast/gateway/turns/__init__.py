"""Runs the turns of sessions: lanes, admission, the running turn and how it ends."""
