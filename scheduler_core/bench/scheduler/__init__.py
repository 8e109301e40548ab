"""The scheduler alone, with a model that costs nothing, beside vLLM's own."""
