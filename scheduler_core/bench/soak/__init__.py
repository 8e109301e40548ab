"""A long run of a real gateway under load, with clients that leave and faults: nothing may be lost, leaked or wrong."""
