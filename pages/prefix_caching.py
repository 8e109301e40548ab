"""Lesson 2: what of a prompt is read again, and what is found."""

from pages.components.frame import frame
from pages.components.lesson import lesson

lesson("prefix_caching", frame("pages/prefix_caching.py"))
