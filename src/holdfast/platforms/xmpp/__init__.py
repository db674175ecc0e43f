"""XMPP: an account of any server, in direct chats and in rooms."""
