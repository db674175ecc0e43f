"""The API door: the OpenAI API in front of a durable agent."""
