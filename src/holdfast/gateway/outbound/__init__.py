"""From a commit to a chat: deliveries, streams, rate limits, reactions."""
