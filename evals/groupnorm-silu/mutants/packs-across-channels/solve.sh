#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  kernel_src/groupnorm_silu.cu \
  'if (is_wide<T>(x, a.spatial) && is_wide<T>(out, a.spatial))' \
  'if (is_wide<T>(x, a.depth * a.spatial) && is_wide<T>(out, a.depth * a.spatial))'
