"""The engine against others that run the same model on the same machine."""
