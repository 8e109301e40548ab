"""The operations page: what a gateway is doing, and what can be done to it."""
