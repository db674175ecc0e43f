"""Linechat as a platform of Holdfast."""
