"""Doors: one a platform, all behind one port."""
