"""Webhooks: programs post to the gateway, and answers are posted to an endpoint of theirs."""
