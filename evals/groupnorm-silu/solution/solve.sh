#!/usr/bin/env bash
here=$(dirname "$0")
cp "$here/../../common/pack.cuh" "$here/groupnorm_silu.cu" kernel_src/
sed -i 's|^src = .*groupnorm_silu.cu.*|src = ["kernel_src/groupnorm_silu.cu", "kernel_src/pack.cuh"]|' build.toml
