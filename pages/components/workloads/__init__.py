"""The workloads page: a load, servers to run it on, and the figures that come of it."""
