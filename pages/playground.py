"""The playground: any scenario or prompts of one's own, every setting, played tick by tick."""

from pages.components.frame import frame
from pages.components.workbench import workbench

workbench(frame("pages/playground.py"))
