"""Salvage: reading what can be read of a damaged file, page by page, into a new one."""
