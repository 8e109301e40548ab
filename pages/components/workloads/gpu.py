"""How busy the GPU of this very machine is, by NVML; most machines that serve this app have none."""

from __future__ import annotations

import importlib
from typing import Any

NOT_THERE = "n/a"


def gpu_utilisation() -> str:
    """Share of time with work and share of memory in use, of each GPU; "n/a" without a GPU, its driver or pynvml."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return NOT_THERE
    try:
        nvml.nvmlInit()
        try:
            return "; ".join(_told(nvml, number) for number in range(nvml.nvmlDeviceGetCount())) or NOT_THERE
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError:
        return NOT_THERE


def _told(nvml: Any, number: int) -> str:
    device = nvml.nvmlDeviceGetHandleByIndex(number)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    name = nvml.nvmlDeviceGetName(device)
    name = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    busy = nvml.nvmlDeviceGetUtilizationRates(device).gpu
    return f"{name} {busy} % busy, {100 * memory.used / memory.total:.0f} % of its memory in use"
