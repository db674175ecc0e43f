"""Telegram: bots in direct chats, groups, channels and topics."""
