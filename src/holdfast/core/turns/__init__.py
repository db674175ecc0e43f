"""Turns: what an agent does with a message, and the models and tools it uses."""
