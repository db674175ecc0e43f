"""The Telegram door: a bot of the Bot API, polled or by webhook, over plain HTTP of our own."""
