# For builds with Nix, of every variant that the Hub has: nix run .#build-and-copy
{
  description = "layer-norm-gelu";

  inputs.kernel-builder.url = "github:huggingface/kernels";

  outputs =
    { self, kernel-builder, ... }:
    kernel-builder.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
