"""A stepwise LLM scheduler: chunked prefill, prefix caching and preemption over a paged KV cache."""

__version__ = "0.1.0"
