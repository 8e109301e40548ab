"""A running gateway: its figures, its dead letters, its caches, and faults to switch on."""

from pages.components.frame import frame
from pages.components.operations.page import operations

operations(frame("pages/operations.py"))
