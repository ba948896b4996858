"""Processor time of other processes."""

from __future__ import annotations

import psutil


def family_seconds(pid: int | None) -> float:
    """Of a process and its children, those that have ended included."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system
    return total
