"""Sessions: chosen, titled, expired and torn down."""
