"""Cache hit rate against the size of KV memory, on a recorded workload."""
