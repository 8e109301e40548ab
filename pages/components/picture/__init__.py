"""Pictures of a run, drawn on the server from recorded ticks: SVG, PNG and animated GIF. Knows no Streamlit."""
