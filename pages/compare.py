"""Two configurations on one workload, played side by side."""

from pages.components.compare import compare
from pages.components.frame import frame

compare(frame("pages/compare.py"))
