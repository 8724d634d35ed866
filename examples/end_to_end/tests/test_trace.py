"""Traces as the profiler writes them."""

import pytest
from end_to_end import trace


def event(name, start, length, cat="kernel"):
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": length}


def test_launches_and_time_are_by_step_and_the_host_s_events_do_not_count():
    events = [
        event("nvjet_a", 0, 1000),
        event("adaln_rows<>", 1500, 500),
        event("Memcpy DtoD (Device -> Device)", 2500, 500, "gpu_memcpy"),
        event("nvjet_a", 3000, 1000),
        event("cudaLaunchKernel", 0, 9000, "cuda_runtime"),
        event("ProfilerStep#1", 0, 9000, "gpu_user_annotation"),
        {"ph": "M", "name": "process_name"},
    ]
    read = trace.read({"traceEvents": events}, steps=2)
    assert read.launches == 2.0
    assert read.busy_ms == pytest.approx(1.5)
    assert read.categories["gemm"] == pytest.approx(1.0)
    assert read.categories["norm"] == pytest.approx(0.25)
    assert read.categories["copy"] == pytest.approx(0.25)
    assert read.largest[0] == ("nvjet_a", pytest.approx(1.0), 1.0)


def test_kernels_beside_each_other_are_busy_once():
    read = trace.read({"traceEvents": [event("nvjet_a", 0, 1000), event("nvjet_b", 500, 1000)]}, steps=1)
    assert read.busy_ms == pytest.approx(1.5)
    assert sum(read.categories.values()) == pytest.approx(1.5)


def test_a_trace_without_kernels_is_an_error():
    with pytest.raises(RuntimeError, match="CUPTI"):
        trace.read({"traceEvents": [event("cudaLaunchKernel", 0, 1, "cuda_runtime")]}, steps=1)
