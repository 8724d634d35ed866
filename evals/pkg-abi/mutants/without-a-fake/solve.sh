#!/usr/bin/env bash
here=$(dirname "$0")
bash "$here/../../../common/mutate" "$here/../../solution" \
  torch-ext/row_scale/__init__.py \
  '@torch.library.register_fake(add_op_namespace_prefix("row_amax"))
def _(x):
    return x.new_empty((x.shape[0],))
' \
  ''
