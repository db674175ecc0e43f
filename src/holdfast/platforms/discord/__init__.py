"""Discord: bots in direct chats, servers and threads."""
