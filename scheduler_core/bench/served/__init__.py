"""A gateway in a process of its own, and a client of it: for benchmarks that go over HTTP."""
