"""Lesson 1: why a long prompt stalls the chats, and what chunks do about it."""

from pages.components.frame import frame
from pages.components.lesson import lesson

lesson("chunked_prefill", frame("pages/chunked_prefill.py"))
