"""Lesson 3: who has to give way, why, and what it costs."""

from pages.components.frame import frame
from pages.components.lesson import lesson

lesson("preemption", frame("pages/preemption.py"))
