"""The stage: one inline component that plays a recorded run in the browser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from pages.components.frame import asset
from pages.components.player_payload import payload
from scheduler_core.glossary import terms
from scheduler_core.trace import Trace

__all__ = ["StageState", "forget_words", "news", "payload", "stage"]

_FOLDER = Path(__file__).parents[2] / "assets" / "player"
#: The scripts in the order in which they make one module.
_SCRIPTS = (
    "codec",
    "run",
    "view",
    "jumps",
    "dom",
    "tip",
    "motion",
    "playback",
    "transport",
    "scrubber",
    "bars",
    "lanes",
    "cards",
    "blocks",
    "timeline",
    "narrator",
    "teach",
    "help",
    "tour",
    "meanings",
    "bystanders",
    "keys",
    "voice",
    "standstill",
    "stage",
    "main",
)

#: The glossary's term behind each mark of the legend and each panel.
_MEANINGS = {
    "cached": "hit",
    "loaded": "cache-below-memory",
    "computed": "prefill",
    "chunk": "chunk",
    "generated": "decode",
    "preempted": "preemption",
    "waiting": "queue",
    "tick": "tick",
    "kv": "kv-cache",
    "host": "host-pool",
}


@dataclass(frozen=True, slots=True)
class StageState:
    """Where the stage stood when it last spoke: it does so on pause, step, scrub and selection, not on each tick.

    `action` is "why", "block" or "stop" in the one run that such a click starts, else None; `action_request` is
    the request that the click was about, `block` the block that was clicked. `is_news` is False where the stage has
    not spoken since it was last heard: Python may have sent it elsewhere in between.
    """

    tick: int
    selected: str | None = None
    playing: bool = False
    action: str | None = None
    action_request: str | None = None
    block: int | None = None
    is_news: bool = True

    @property
    def why_clicked(self) -> bool:
        return self.action == "why"

    @property
    def stop_clicked(self) -> bool:
        return self.action == "stop"


def _script() -> str:
    parts = [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    script = "\n".join((asset("turns.js"), *parts))
    return script.replace("{{build}}", hashlib.sha256(script.encode()).hexdigest()[:12])


_component = st.components.v2.component(
    "tickscope.stage",
    css="\n".join((_FOLDER / f"{name}.css").read_text(encoding="utf-8") for name in ("stage", "teach")),
    js=_script(),
)


def stage(
    trace: Trace,
    key: str = "stage",
    *,
    tick: int | None = None,
    cmd_id: int = 0,
    selected: str | None = None,
    play: bool = False,
    computing: bool = False,
    status: str = "recorded",
    clock: str = "virtual",
    on_change: Callable[[], None] | None = None,
    link: str | None = None,
    height: int | None = None,
    url: str | None = "tick",
    spoilers: bool = True,
    why: bool = True,
    tour: bool = False,
    label: str | None = None,
    mark: int | None = None,
    last_tick: int | None = None,
    panel: str = "",
    room: int | None = None,
    teach: dict[str, Any] | None = None,
    without: Sequence[str] = (),
) -> StageState:
    """Draw the stage and say where it stands; call it inside a fragment, so that a step reruns the fragment only.

    `tick`, `selected` and `play` are obeyed on the first showing and whenever `cmd_id` has grown; otherwise the
    stage stays where its user left it, also when the trace changes. `computing` marks a live run that goes on.
    `status` is "recorded", "live" or "synthetic", `clock` "virtual" or "measured". Stages with the same `link`
    move together, up to the end of the longest of their runs, `last_tick`; `mark` is a tick to flag on the scrubber.
    `tour` offers a first visitor the tour. `url` names the address parameter that holds the tick (None: leave the
    address alone);
    without `spoilers` nothing after the tick is shown; `why` offers the link to the reasons. `panel` is the one to
    point at; a run that is cut short has `room` for so many ticks on its scales. `teach` is the teacher view: what is
    hidden, and what a clicker does; `without` names parts that this page leaves away in any view.
    """
    result = _component(
        key=key,
        data={
            "run": _encoded(trace, key),
            "command": _command(key, {"id": cmd_id, "tick": tick, "selected": selected, "play": play}),
            "options": {
                "label": label or f"Stage: {trace.title or trace.scenario or 'run'}. Press question mark for the keys.",
                "status": status,
                "clock": clock,
                "computing": computing,
                "link": link,
                "mark": mark,
                "url": url,
                "spoilers": spoilers,
                "why": why,
                "tour": tour,
                "terms": _terms(),
                "panel": panel,
                "room": room,
                "teach": teach,
                "without": list(without),
            },
        },
        height="content" if height is None else height,
        on_view_change=on_change or _nothing,
        on_action_change=on_change or _nothing,
    )
    is_news = _remember_seq(result, key)
    last = len(trace.records) - 1 if last_tick is None else last_tick
    return replace(_state(result, trace, tick, selected, last), is_news=is_news)


def _terms() -> dict[str, tuple[str, str]]:
    """Title and definition of the terms behind the stage's marks and panels."""
    return {name: (terms()[key].name, terms()[key].text) for name, key in _MEANINGS.items()}


def _nothing() -> None:
    """A callback makes Streamlit keep the key."""


def _encoded(trace: Trace, key: str) -> dict[str, Any]:
    """The payload, kept with the very trace it was made from: a step must not encode the run again.

    The digest tells the browser that it has this run already.
    """
    slot = f"_stage_payload {key}"
    kept = st.session_state.get(slot)
    if kept is None or kept[0] is not trace:
        data = payload(trace)
        digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
        kept = (trace, {**data, "digest": digest})
        st.session_state[slot] = kept
    encoded: dict[str, Any] = kept[1]
    return encoded


def _command(key: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The command as it was first given: what is sent stays the same from step to step, so that nothing is redrawn."""
    slot = f"_stage_command {key}"
    kept = st.session_state.get(slot)
    if kept is None or kept["id"] != asked["id"] or key not in st.session_state:
        st.session_state[slot] = kept = {**asked, "after": st.session_state.get(f"_stage_seq {key}")}
    command: dict[str, Any] = kept
    return command


def _remember_seq(result: Mapping[str, Any], key: str) -> bool:
    """Keep the number of the last word heard; tells whether it is another than before.

    A command that was given before the user's next move is not obeyed.
    """
    view = result.get("view") or {}
    is_news = _is_news(view, key)
    if isinstance(view.get("seq"), int):
        st.session_state[f"_stage_seq {key}"] = view["seq"]
    return is_news


def _is_news(view: Mapping[str, Any], key: str) -> bool:
    """Whether the stage says so for the first time; the browser repeats it with everything else that it tells."""
    seq = view.get("seq")
    return not isinstance(seq, int) or seq != st.session_state.get(f"_stage_seq {key}")


def news(key: str) -> dict[str, Any] | None:
    """Where the stage says that it stands, for a callback; None if it has said nothing new."""
    view = (st.session_state.get(key) or {}).get("view") or {}
    return dict(view) if isinstance(view.get("tick"), int) and _is_news(view, key) else None


def forget_words(key: str) -> None:
    """A stage that is mounted anew counts its words from 1 again."""
    st.session_state.pop(f"_stage_seq {key}", None)


def _state(result: Mapping[str, Any], trace: Trace, tick: int | None, selected: str | None, last: int) -> StageState:
    """What the browser said, made sound: it may be about an earlier, longer run."""
    view = result.get("view") or {"tick": tick or 0, "selected": selected, "playing": False}
    action = result.get("action") or {}
    known = {spec.id for spec in trace.requests}
    block = action.get("block")
    return StageState(
        tick=max(0, min(int(view.get("tick") or 0), last)),
        selected=view.get("selected") if view.get("selected") in known else None,
        playing=bool(view.get("playing")),
        action=action.get("name"),
        action_request=action.get("request") if action.get("request") in known else None,
        block=block if isinstance(block, int) and 0 <= block < trace.config.num_blocks else None,
    )
