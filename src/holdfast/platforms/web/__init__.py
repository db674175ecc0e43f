"""The web platform: chats of the page and the command line."""
