"""Loads: which requests are sent and when, apart from how they are sent. Seeded and open loop."""
