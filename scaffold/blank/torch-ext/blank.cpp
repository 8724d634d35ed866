// The ops of kernel.toml's operation @OP@.
#include "binding.h"

extern "C" {
@DECLARATIONS@}

namespace {

using binding::Array;
using binding::Call;
using binding::Input;
using binding::OptionalTensor;
using binding::Shape;
using binding::Tensor;

@FUNCTIONS@}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {
@SCHEMAS@}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CUDA, ops) {
@IMPLEMENTATIONS@}

// For what they say of a tensor that is on no card.
STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {
@IMPLEMENTATIONS@}
