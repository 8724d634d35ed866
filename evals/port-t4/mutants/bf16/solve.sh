#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution"
sed -i 's/__half2float/__bfloat162float/g; s/__float2half/__float2bfloat16/g; s/__half\b/__nv_bfloat16/g; s/cuda_fp16/cuda_bf16/' kernel_src/short_conv.cu
