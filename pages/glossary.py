"""Every term of the app with its definition, to search and to follow to where it is shown."""

from pages.components.frame import frame
from pages.components.glossary import glossary

frame("pages/glossary.py")
glossary()
