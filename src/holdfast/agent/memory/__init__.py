"""Memory across conversations: providers, notes, and the tool that edits them."""
