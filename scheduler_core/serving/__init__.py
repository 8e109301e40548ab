"""Serves the scheduler: an asyncio front, and a gateway that speaks OpenAI's wire format."""
