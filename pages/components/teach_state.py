"""The teacher view: whether it is on and what it hides, kept for the visit and carried by a link."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from pages.components.plain import cut

#: The part of an address that asks for the teacher view.
NAME = "teach"
ON, OFF, NOTHING = "on", "off", "nothing"

#: What a teacher can hide, by its name in a link, in the order on screen.
PARTS: dict[str, str] = {
    "settings": "Settings",
    "choices": "Choices in the head",
    "buttons": "Playback buttons",
    "scrubber": "Scrubber",
    "blocks": "KV blocks",
    "timeline": "Timeline",
    "narration": "Narration",
    "tips": "Numbers on hover",
    "panels": "Panels below",
}

#: Those of them that the stage draws.
ON_STAGE = ("buttons", "scrubber", "blocks", "timeline", "narration", "tips")

#: What stands and moves while one explains is kept; what is only there to be operated is hidden.
USUAL = frozenset({"settings", "choices", "panels"})

#: A longer list than this is not one of ours.
MAX_LENGTH = 200

#: What a clicker's key for the next slide does: a tick more of the run, or the next step of the lesson.
Clicker = Literal["run", "lesson"]


@dataclass(frozen=True, slots=True)
class Teach:
    """The teacher view with the parts that are hidden in it."""

    hidden: frozenset[str] = USUAL

    def hides(self, part: str) -> bool:
        return part in self.hidden


def to_text(teach: Teach | None) -> str:
    """The teacher view as a part of an address, "" where it is off."""
    if teach is None:
        return ""
    if teach.hidden == USUAL:
        return ON
    return ",".join(part for part in PARTS if part in teach.hidden) or NOTHING


def from_text(text: str) -> tuple[Teach | None, list[str]]:
    """The teacher view that an address asks for, with a message for every part that could not be taken."""
    known: dict[str, Teach | None] = {OFF: None, ON: Teach(), NOTHING: Teach(frozenset())}
    if text in known:
        return known[text], []
    asked = [part.strip() for part in text[:MAX_LENGTH].split(",")]
    hidden = frozenset(part for part in asked if part in PARTS)
    strange = list(dict.fromkeys(part for part in asked if part not in PARTS))
    if not strange and len(text) <= MAX_LENGTH:
        return Teach(hidden), []
    offered = f"there are {ON}, {OFF}, {NOTHING}, or a list of {', '.join(PARTS)}"
    shown = "Hidden is the usual." if not hidden else "The rest of the list is hidden."
    told = cut(",".join(strange) or text)
    return Teach(hidden or USUAL), [f"The link asks for the teacher view {told}; {offered}. {shown}"]


def enter_teach() -> None:
    """Take over what the address says of the teacher view; without a word of it the visit goes on as before."""
    asked = st.query_params.get(NAME)
    if asked is not None:
        st.session_state["teach"], st.session_state["teach_messages"] = from_text(asked)


def teach() -> Teach | None:
    """The teacher view of this visit, None where it is off."""
    found = st.session_state.get("teach")
    assert found is None or isinstance(found, Teach)
    return found


def is_shown(part: str) -> bool:
    """Whether a part of the page is to be drawn."""
    now = teach()
    return now is None or not now.hides(part)


def teach_query() -> dict[str, str]:
    """What an address has to say of the teacher view."""
    text = to_text(teach())
    return {NAME: text} if text else {}


def stage_teach(clicker: Clicker) -> dict[str, Any] | None:
    """What the stage has to know of the teacher view."""
    now = teach()
    if now is None:
        return None
    return {"clicker": clicker, "hide": hidden_on_stage(now.hidden)}


def hidden_on_stage(hidden: Collection[str]) -> list[str]:
    return [part for part in ON_STAGE if part in hidden]
