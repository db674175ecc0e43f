"""What an agent knows from other conversations: providers, notes, and the tool that edits them."""
