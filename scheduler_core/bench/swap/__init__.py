"""What coming back from a preemption costs: the KV copied out and in, or its tokens computed again."""
