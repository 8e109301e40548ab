"""`bench load`: a load, generated or from a file, on a simulated machine."""
