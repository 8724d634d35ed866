// What is done to a gate.
#pragma once

enum Activation : int { kGelu, kGeluTanh, kSilu };
