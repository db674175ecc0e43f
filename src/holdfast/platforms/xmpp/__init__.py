"""XMPP: an account of any server as a door, in chats of two and in rooms."""
