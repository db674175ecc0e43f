"""The agent: the loop that turns a message into an answer."""
