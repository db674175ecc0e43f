"""Matrix: an account in rooms and threads, with or without encryption."""
