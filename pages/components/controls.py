"""The settings in the sidebar: quantum and chunk size first, the rest folded away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.fields import (
    CHOICE_LABELS,
    FIELDS,
    OFF,
    PAGE_BOUNDS,
    PRESET_LABELS,
    PRESET_NOTES,
)
from pages.components.play_state import PlayState
from scheduler_core.config import CHOICES, FLAGS, EngineConfig
from scheduler_core.cost_model import MACHINES

BUDGET = "budget"
QUANTA = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32)
CHUNKS = (1, 2, 4, 7, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128)

#: Shown only while chunk control uses them.
STEERING = ("chunk_target_ms", "chunk_signal", "chunk_response", "chunk_moves")
#: Folded away, in the order shown.
FOLDED = (
    "num_blocks",
    "block_size",
    "num_swap_blocks",
    "watermark",
    "admission",
    "batch_order",
    "mixed_batches",
    "priority_push_out",
    "aging",
    "mlfq_levels",
    "cap_lone_request",
    "chunk_control",
    *STEERING,
    "max_model_len",
    "seed",
    "cost",
)

#: Pixels of a widget beside the name of its setting.
WIDGET = 107

Position = int | str


@dataclass(frozen=True, slots=True)
class Dial:
    """A slider: its positions, the change of settings that each stands for, and the place for its curve."""

    field: str
    positions: list[Position]
    at: int
    place: DeltaGenerator

    def changes(self) -> list[dict[str, Any]]:
        return [position_changes(self.field, position) for position in self.positions]


def controls(state: PlayState, base: EngineConfig, on_change: Callable[[], None]) -> tuple[Dial, Dial]:
    """Draw all settings; each change is written to `state`, then `on_change` is called."""
    panel = SettingsPanel(state, base, on_change)
    quantum = panel.dial("quantum", QUANTA)
    chunk = panel.dial("chunk_size", CHUNKS)
    panel.choice("policy")
    panel.number("max_num_seqs")
    panel.number("max_num_batched_tokens")
    panel.choice("preemption_mode")
    panel.switch("enable_prefix_caching")
    with st.expander("All settings", key="all_settings", type="compact"):
        panel.preset()
        for name in FOLDED:
            panel.folded(name)
    if state.preset or state.overrides:
        st.button("Reset settings", key="reset_settings", on_click=panel.reset, type="tertiary")
    return quantum, chunk


def position_changes(field: str, position: Position) -> dict[str, Any]:
    """The settings that a slider's position stands for."""
    if field == "quantum":
        return {"quantum": None if position == OFF else position}
    if position == OFF:
        return {"enable_chunked_prefill": False}
    return {"enable_chunked_prefill": True, "chunk_size": None if position == BUDGET else position}


def position_label(field: str, position: Position) -> str:
    """A position for people: "8 ticks", "the budget", "off"."""
    if field == "quantum":
        return OFF if position == OFF else f"{position} tick{'' if position == 1 else 's'}"
    if position == OFF:
        return OFF
    return "the budget" if position == BUDGET else f"{position} token{'' if position == 1 else 's'}"


class SettingsPanel:
    """Draws widgets that show `state` and write to it; `side` keeps two panels on one page apart."""

    def __init__(self, state: PlayState, base: EngineConfig, on_change: Callable[[], None], side: str = "") -> None:
        self._side = side
        self._state = state
        self._base = base
        self._on_change = on_change

    def dial(self, field: str, usual: tuple[int, ...]) -> Dial:
        position = self._position(field)
        numbers = sorted({*usual, *([position] if isinstance(position, int) else [])})
        positions: list[Position] = [*numbers, *([BUDGET] if field == "chunk_size" else []), OFF]
        key = self._key(field)
        with st.container(key=f"dial_{self._side}{field}", gap=None):
            with st.container(horizontal=True, horizontal_alignment="distribute", gap="small", wrap=False):
                st.markdown(f"**{FIELDS[field].label}**", width="content", help=FIELDS[field].help)
                st.markdown(f"`{self._dial_label(field, position)}`", width="content")
            self._show(key, position)
            st.select_slider(
                FIELDS[field].label,
                positions,
                format_func=lambda value: position_label(field, value),
                key=key,
                on_change=self._dialled,
                args=(field,),
                label_visibility="collapsed",
            )
            place = st.container()
        return Dial(field, positions, positions.index(position), place)

    def choice(self, field: str) -> None:
        self._show(self._key(field), self._value(field))
        with self._row(field):
            st.selectbox(
                FIELDS[field].label,
                CHOICES[field],
                format_func=lambda value: CHOICE_LABELS.get(value, value),
                key=self._key(field),
                on_change=self._chosen,
                args=(field,),
                label_visibility="collapsed",
                filter_mode=None,
                width=WIDGET,
            )

    def number(self, field: str) -> None:
        low, high = PAGE_BOUNDS[field]
        self._show(self._key(field), self._value(field))
        with self._row(field):
            st.number_input(
                FIELDS[field].label,
                low,
                high,
                step=1,
                key=self._key(field),
                on_change=self._chosen,
                args=(field,),
                label_visibility="collapsed",
                width=WIDGET,
            )

    def switch(self, field: str) -> None:
        self._show(self._key(field), self._value(field))
        with self._row(field):
            st.toggle(
                FIELDS[field].label,
                key=self._key(field),
                on_change=self._chosen,
                args=(field,),
                label_visibility="collapsed",
            )

    def folded(self, field: str) -> None:
        """A setting with its name above it; one that would do nothing as things stand is left out."""
        if field in STEERING and not self._steers(field):
            return
        key, label, told = self._key(field), FIELDS[field].label, FIELDS[field].help
        self._show(key, self._value(field))
        if field in FLAGS:
            st.toggle(label, key=key, help=told, on_change=self._chosen, args=(field,))
        elif field in CHOICES or field == "cost":
            st.selectbox(
                label,
                CHOICES.get(field, tuple(MACHINES)),
                format_func=lambda value: CHOICE_LABELS.get(value, value),
                key=key,
                help=told,
                on_change=self._chosen,
                args=(field,),
                filter_mode=None,
            )
        else:
            low, high = PAGE_BOUNDS[field]
            st.number_input(label, low, high, step=1, key=key, help=told, on_change=self._chosen, args=(field,))

    def preset(self) -> None:
        self._show(self._key("preset"), self._state.preset)
        st.selectbox(
            "Preset",
            tuple(PRESET_LABELS),
            format_func=PRESET_LABELS.__getitem__,
            key=self._key("preset"),
            on_change=self._preset_chosen,
            help="A whole scheduler at once: order, admission, slices and preemption. Memory, lanes and budget stay.",
            filter_mode=None,
        )
        if note := PRESET_NOTES.get(self._state.preset):
            st.caption(note)

    def reset(self) -> None:
        self._state.preset = ""
        self._state.overrides = {}
        self._on_change()

    def _preset_chosen(self) -> None:
        self._state.preset = st.session_state[self._key("preset")]
        self._state.overrides = {}
        self._on_change()

    def _chosen(self, field: str) -> None:
        self._state.choose(field, st.session_state[self._key(field)], self._base)
        self._on_change()

    def _dialled(self, field: str) -> None:
        for name, value in position_changes(field, st.session_state[self._key(field)]).items():
            self._state.choose(name, value, self._base)
        self._on_change()

    def _steers(self, field: str) -> bool:
        """Whether chunk control, as it is chosen, uses the setting."""
        control = self._value("chunk_control")
        return control == "pid" or (control == "ramp" and field == "chunk_moves")

    def _dial_label(self, field: str, position: Position) -> str:
        moves = self._value("chunk_control") != "fixed" and self._value("chunk_moves") == "chunk"
        upper = "≤ " if field == "chunk_size" and moves and position != OFF else ""
        return upper + position_label(field, position)

    def _position(self, field: str) -> Position:
        if field == "quantum":
            return self._value("quantum") or OFF
        if not self._value("enable_chunked_prefill"):
            return OFF
        return self._value("chunk_size") or BUDGET

    def _value(self, field: str) -> Any:
        return self._state.value(field, self._base)

    def _key(self, field: str) -> str:
        return f"set_{self._side}{field}"

    def _row(self, field: str) -> DeltaGenerator:
        """The name of a setting on the left, and a place for its widget on the right."""
        key = f"row_{self._side}{field}"
        row = st.container(horizontal=True, vertical_alignment="center", gap="small", key=key, wrap=False)
        row.markdown(FIELDS[field].label, help=FIELDS[field].help, width="stretch")
        return row

    @staticmethod
    def _show(key: str, value: Any) -> None:
        # Only where it differs: a value written anew would overtake one that is being dragged.
        if st.session_state.get(key, _MISSING) != value:
            st.session_state[key] = value


_MISSING = object()
