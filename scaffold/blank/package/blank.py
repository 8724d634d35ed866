"""@SUMMARY@"""

@TYPING@import torch
# [of gradient]
from torch.autograd.function import once_differentiable
# [end of]

from ._ops import add_op_namespace_prefix, ops

# Looked up once: a call goes straight to the dispatcher.
_@OP@ = ops.@OP@.default
# [of gradient]
_@OP@_backward = ops.@OP@_backward.default
# [end of]


@torch.library.register_fake(add_op_namespace_prefix("@OP@"))
def _(@NAMES@):@CHECKED@
    return @FAKE@


# [of gradient]
@torch.library.register_fake(add_op_namespace_prefix("@OP@_backward"))
def _(@D_NAMES@):@D_CHECKED@
    return @D_FAKE@


class _@CLASS@(torch.autograd.Function):
    @staticmethod
    def forward(ctx, @NAMES@):
        ctx.save_for_backward(@TENSORS@)
        ctx.scalars = (@SCALARS@)
        return _@OP@(@NAMES@)

    @staticmethod
    @once_differentiable
    def backward(ctx, @GRADIENTS@):
        (@TENSORS@,) = ctx.saved_tensors
        (@SCALARS@) = ctx.scalars
        (@D_OUTPUTS@,) = (_@OP@_backward(@D_NAMES@)@D_ONE@)
        return @RETURNED@


# [end of]
def @OP@(@PARAMETERS@) -> @RESULT@:
    """@SUMMARY@

    Arguments:
@ARGUMENTS@
    Returns:
        @RETURNS@
    """@REFUSAL@
# [of gradient]
    if torch.is_grad_enabled() and (@WANTED@):
        return _@CLASS@.apply(@NAMES@)
# [end of]
    return _@OP@(@NAMES@)
