"""The allocator's thresholds are raised where there is glibc, and faults fall."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, torch  # 40 MB a block: glibc never keeps such large ones by itself
if sys.argv[1] == "keep":
    from budgerigar.training.allocator import keep_freed_memory
    assert keep_freed_memory()
for round in range(8):
    if round == 4:  # by now the heap has grown to what the rounds need
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept = [torch.ones(10_000_000) for _ in range(2)]
    del kept
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_page_faults_fall() -> None:
    counts = {}
    for mode in ("default", "keep"):
        run = [sys.executable, "-c", SCRIPT, mode]
        counts[mode] = int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert counts["keep"] < counts["default"] / 2  # one round may still grow the heap
