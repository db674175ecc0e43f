"""Webhooks: programs post to hooks of the gateway, and its answers are posted to an address."""
