"""How many replicas serve a load that grows with them, by router."""
