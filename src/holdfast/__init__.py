"""Holdfast: a gateway between chat platforms and agents that never loses a conversation."""

__version__ = "0.1.0"
