"""Webhooks: programs post to the gateway, and answers are posted to their endpoint."""
