"""Workloads that others recorded or wrote: read from files, shaped, and made into requests."""
