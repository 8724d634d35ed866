#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/torch_binding.cpp \
  'scale_rows_(Tensor! x' \
  'scale_rows_(Tensor x'
