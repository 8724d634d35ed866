#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  bench.py \
  'times.append(begin.elapsed_time(end) * 1e3)' \
  'times.append(clock * 1e6)' \
  bench.py \
  '        begin.record()' \
  '        import time; clock = time.perf_counter()
        begin.record()' \
  bench.py \
  '        end.record()' \
  '        end.record(); clock = time.perf_counter() - clock'
