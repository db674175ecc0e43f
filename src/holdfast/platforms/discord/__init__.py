"""Discord: bots in chats of two, servers and threads."""
