// What is done to a gate.
#pragma once

namespace geglu {

enum Activation : int { kGelu, kGeluTanh, kSilu };

}  // namespace geglu
