"""Several replicas behind a router: hit rates, balance, and a kill on the way."""

from pages.components.frame import frame
from pages.components.scale_out import scale_out

scale_out(frame("pages/scale_out.py"))
