"""@OP@ as a layer. It lends its forward to a module that has the members named here."""

import torch
from torch import nn

from ..@OP@ import @OP@


class @CLASS@(nn.Module):
    """For a module with the same forward. @SUMMARY@"""

    can_torch_compile = True
    has_backward = @HAS_BACKWARD@
@MEMBERS@
    def forward(self, @FORWARD@) -> @LAYER_RESULT@:
        return @OP@(@FORWARDED@)
