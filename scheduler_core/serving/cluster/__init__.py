"""The gateway and many engines, on Ray Serve."""
