"""The transformer: what a step's blocks share is computed once, and residuals are carried from block to block."""

from typing import Any, Dict, Optional

import torch
from diffusers.models.modeling_outputs import Transformer2DModelOutput
from diffusers.models.transformers import transformer_ltx as stock
from diffusers.utils import apply_lora_scale

from .attention import prepared_mask
from .block import LTXVideoTransformerBlock, Modulation, modulated, settled
from .errors import OptimizeError
from .hooks import watched
from .kernel import Kernel
from .rotary import Tables

_NAME = "LTXVideoTransformer3DModel"


class LTXVideoTransformer3DModel(stock.LTXVideoTransformer3DModel):
    _ltx_kernel: Kernel
    _ltx_tables: Tables

    @apply_lora_scale("attention_kwargs")
    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        timestep: torch.LongTensor,
        encoder_attention_mask: torch.Tensor,
        num_frames: Optional[int] = None,
        height: Optional[int] = None,
        width: Optional[int] = None,
        rope_interpolation_scale: Any = None,
        video_coords: Optional[torch.Tensor] = None,
        attention_kwargs: Optional[Dict[str, Any]] = None,
        return_dict: bool = True,
    ) -> Any:
        kernel = self._ltx_kernel
        self._refuse(hidden_states, encoder_hidden_states)

        mask = encoder_attention_mask
        if mask is not None and mask.ndim == 2:
            mask = ((1 - mask.to(hidden_states.dtype)) * -10000.0).unsqueeze(1)

        batch_size = hidden_states.size(0)
        hidden_states = self.proj_in(hidden_states)
        kernel.check(hidden_states)
        rotary = self._ltx_tables.of(
            kernel, self.rope, hidden_states, num_frames, height, width, rope_interpolation_scale, video_coords
        )

        temb, embedded = self.time_embed(timestep.flatten(), batch_size=batch_size, hidden_dtype=hidden_states.dtype)
        temb = temb.view(batch_size, -1, temb.size(-1))
        embedded = embedded.view(batch_size, -1, embedded.size(-1))
        ada = temb.unflatten(2, (6, -1)).unbind(dim=2)

        text = self.caption_projection(encoder_hidden_states)
        text = text.view(batch_size, -1, hidden_states.size(-1))
        if mask is not None and mask.ndim == 3:
            mask = prepared_mask(self.transformer_blocks[0].attn2, mask, text)

        own, pending = False, None
        for block in self.transformer_blocks:
            if type(block) is LTXVideoTransformerBlock and not watched(block):
                hidden_states, pending, own = block.enter(hidden_states, pending, own, text, ada, rotary, mask)
                continue
            # Hooks on a block see complete hidden states, and may keep them.
            if pending is not None:
                hidden_states, pending = settled(kernel, hidden_states, pending, own), None
            hidden_states = block(
                hidden_states=hidden_states,
                encoder_hidden_states=text,
                temb=temb,
                image_rotary_emb=rotary,
                encoder_attention_mask=mask,
            )
            own = False

        table = self.scale_shift_table.unbind(0)
        by = Modulation(embedded, embedded, table[1], table[0])
        hidden_states, _ = modulated(kernel, self.norm_out, "layer", hidden_states, pending, by, own)
        output = self.proj_out(hidden_states)
        if not return_dict:
            return (output,)
        return Transformer2DModelOutput(sample=output)

    def _refuse(self, hidden_states: torch.Tensor, text: torch.Tensor) -> None:
        if torch.is_grad_enabled() and (
            hidden_states.requires_grad or text.requires_grad or any(p.requires_grad for p in self.parameters())
        ):
            raise OptimizeError(
                f"{_NAME}: gradients are wanted, and its fused operations have none; call it under torch.no_grad(), or "
                "restore() it to train"
            )
        if torch.is_autocast_enabled(hidden_states.device.type):
            raise OptimizeError(
                f"{_NAME}: under torch.autocast diffusers keeps the hidden states in float32, and the fused operations "
                "would not; cast the model with .to(...) instead, or restore() it"
            )
        processor = self.transformer_blocks[0].attn1.processor
        if self._parallel_config is not None or getattr(processor, "_parallel_config", None) is not None:
            raise OptimizeError(
                f"{_NAME}: with context parallelism a device has a part of the tokens, which is no grid of frames, "
                "rows and columns; restore() it"
            )


LTXVideoTransformer3DModel.__module__ = stock.__name__
