"""Matrix: an account in rooms and threads, encrypted or not."""
