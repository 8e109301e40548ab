"""From scratch: a naive scheduler and what goes wrong in it, the real one part by part, and the fault museum."""

from pages.components.frame import frame
from pages.components.from_scratch import from_scratch

from_scratch(frame("pages/from_scratch.py"))
