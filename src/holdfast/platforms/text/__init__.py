"""Text: what an agent says in Markdown, in the form that each platform shows."""
