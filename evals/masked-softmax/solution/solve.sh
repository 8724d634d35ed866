#!/usr/bin/env bash
here=$(dirname "$0")
cp "$here/../../common/pack.cuh" "$here/masked_softmax.cu" kernel_src/
sed -i 's|^src = .*masked_softmax.cu.*|src = ["kernel_src/masked_softmax.cu", "kernel_src/pack.cuh"]|' build.toml
