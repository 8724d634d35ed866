#!/usr/bin/env bash
here=$(dirname "$0")
cp "$here/../../common/pack.cuh" "$here/quant_rows.cu" kernel_src/
sed -i 's|^src = .*quant_rows.cu.*|src = ["kernel_src/quant_rows.cu", "kernel_src/pack.cuh"]|' build.toml
