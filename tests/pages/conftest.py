"""Streamlit looks through every installed package for components at the start of each app; here one look serves all."""

from __future__ import annotations

import functools

import pytest
from streamlit.components.v2 import manifest_scanner


@pytest.fixture(scope="session", autouse=True)
def one_look_for_components() -> None:
    # Half of the time of a test of a page went into it; what is installed stays the same during the tests.
    manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)
