"""Agents: built, cached, and given their memory."""
