"""Messages that come in, messages that go out, and the transcript."""
