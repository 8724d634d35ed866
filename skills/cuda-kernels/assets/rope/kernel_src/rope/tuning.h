// What the kernels bound: threads of a block, and slots (lanes) of a head that is held in registers.
#pragma once

namespace rope {
constexpr int kMostThreads = 256, kMostSlots = 32;
}
