"""Many replicas of the engine behind a router, over one virtual clock."""
