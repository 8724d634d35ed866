"""The answer, compared exactly: `visible` what binds each kernel, `hidden` the stalls and the next steps."""

import judge

# 92.8 % of the memory's peak; 2 sectors a request are accesses of 2 bytes; 168 registers let 12.5 % of the warps in; shared
# memory that waits for banks.
RIGHT = {
    "norm_rows": ("memory", "long_scoreboard", "stop"),
    "gate_rows": ("latency", "long_scoreboard", "widen_accesses"),
    "scan_rows": ("occupancy", "long_scoreboard", "fewer_registers"),
    "transpose_tile": ("latency", "short_scoreboard", "fix_bank_conflicts"),
}

with judge.judging("visible", "hidden") as verdict:
    found = judge.answer("answer.json")
    verdict.set("visible", all(found[name]["bound"] == right[0] for name, right in RIGHT.items()))
    rest = all((found[name]["stall"], found[name]["next"]) == right[1:] for name, right in RIGHT.items())
    verdict.set("hidden", rest and set(found) == set(RIGHT))
