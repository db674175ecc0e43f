"""Hands: what an agent can do, each with its schema, replay class and danger."""
