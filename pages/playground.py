"""The playground: any scenario, every setting, real tokens."""

from __future__ import annotations

import streamlit as st

from pages.components.frame import frame

frame("pages/playground.py")
st.title("Playground")
st.markdown(":gray[A long report is being read while three chats go on.]")
with st.sidebar:
    st.divider()
    st.select_slider("Quantum", [1, 2, 4, 8, "off"], value=4)
    st.selectbox("Policy", ["fcfs"])
st.tabs(["Why?", "Tokens"])
