"""Sessions: resolved for a message, expired and torn down."""
