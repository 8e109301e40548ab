"""Tiers below the block pool that keep KV blocks: on this disk, shared between machines, or in memory for tests."""
