"""Runs of many thousands of requests in bounded memory, any part of which can be looked at in full afterwards."""
