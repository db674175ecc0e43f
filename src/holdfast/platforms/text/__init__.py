"""Renders the agent's Markdown in the format of each platform."""
