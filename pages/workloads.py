"""Workloads: traces and generated loads on simulated servers, with latencies, goodput, sweeps and fairness."""

from pages.components.frame import frame
from pages.components.workloads.page import workloads

workloads(frame("pages/workloads.py"))
