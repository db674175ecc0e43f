"""Text: Markdown, and splitting it into messages."""
