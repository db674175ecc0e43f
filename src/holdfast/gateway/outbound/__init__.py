"""Brings committed output to chats: deliveries, streams, rate limits, reactions."""
