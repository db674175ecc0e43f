"""Turns: lanes, admission, the running turn and its end."""
