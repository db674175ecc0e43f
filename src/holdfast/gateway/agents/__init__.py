"""Agents: built, cached, and connected to their memory."""
