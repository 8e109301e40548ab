"""Tickscope's home page: a recorded run on the stage, and the way to what else there is."""

from pages.components.frame import frame
from pages.components.welcome import welcome

frame("app.py")
welcome()
