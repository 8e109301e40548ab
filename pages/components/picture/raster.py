"""SVG to pixels, with no font of the machine and nothing fetched."""

from __future__ import annotations

import resvg_py

from pages.components.picture.typeface import FILES, drawable


def to_png(svg: str, scale: float = 1) -> bytes:
    """A PNG, `scale` times as large as the SVG says."""
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=drawable(svg),
            skip_system_fonts=True,
            font_files=[str(path) for path in FILES.values()],
            font_family="Inter",
            zoom=scale,
        )
    )
