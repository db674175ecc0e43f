"""Messages that answer no message: proactive sends and home channels."""
