#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  answer.json \
  '"next": "stop"' \
  '"next": "more_work_a_thread"'
