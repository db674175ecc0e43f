"""Messages that nobody asked for: proactive sends, home channels, lifecycle notices."""
