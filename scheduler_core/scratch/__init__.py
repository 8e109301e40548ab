"""From scratch: a first scheduler that does not work, what goes wrong in it, and how the real one grows."""
