"""Linechat: a chat over TCP whose every word is a line of JSON, and Holdfast's door to it."""
