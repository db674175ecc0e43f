"""The API platform: the OpenAI API in front of a durable agent."""
