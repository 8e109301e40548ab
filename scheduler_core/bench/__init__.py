"""Benchmarks: contenders on the same work, alternating in one run, with medians, ratios and the machine."""
