"""Everything the pages draw with."""
