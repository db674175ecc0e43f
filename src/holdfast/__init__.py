"""Holdfast: the gateway between chat platforms and agents that never lets go."""

__version__ = "0.1.0"
