// The candidates of one type and operation; tune.cu says how to compile them.
#include <type_traits>

#include "candidates.h"
#include "hybrid.cuh"

using namespace rmsnorm;

namespace {

using T = TUNE_ELEMENT;
constexpr int N = 16 / sizeof(T);
constexpr bool kAdd = TUNE_ADD != 0;
Element element() { return sizeof(T) == 4 ? Element::f32 : std::is_same_v<T, F16> ? Element::f16 : Element::bf16; }

template <int TPR, int NV, Access LOAD>
void rows(std::vector<Candidate>& all) {
  all.push_back({"rows " + std::to_string(TPR) + "x" + std::to_string(NV) + (LOAD == kStream ? " stream" : ""),
                 reinterpret_cast<const void*>(rms_norm_rows<T, N, TPR, NV, kAdd, LOAD, 0>), element(), kAdd, TPR,
                 NV});
}

template <int TPR, int NV, int NS, int BLOCKS>
void hybrid(std::vector<Candidate>& all) {
  Candidate c = {"hybrid " + std::to_string(TPR) + "x(" + std::to_string(NV) + "+" + std::to_string(NS) + ") " +
                     std::to_string(BLOCKS) + " blocks an SM",
                 reinterpret_cast<const void*>(rms_norm_hybrid<T, N, TPR, NV, NS, BLOCKS, kAdd>), element(), kAdd, TPR,
                 NV + NS};
  c.shared_bytes = NS * TPR * 16;
  all.push_back(c);
}

template <int THREADS, int GROUP, Hint HINT, bool REVERSE>
void twice(std::vector<Candidate>& all) {
  Candidate c = {"twice " + std::to_string(THREADS) + " group " + std::to_string(GROUP) +
                     (HINT == Hint::kNone ? "" : " evict-first") + (REVERSE ? " reverse" : ""),
                 reinterpret_cast<const void*>(rms_norm_twice<T, N, THREADS, GROUP, kAdd, HINT, REVERSE>), element(),
                 kAdd, THREADS, GROUP};
  c.least_packs = 4096, c.most_packs = INT64_MAX;
  all.push_back(c);
}

}  // namespace

void TUNE_NAME(std::vector<Candidate>& all) {
  rows<8, 1, kCached>(all);
  rows<8, 2, kCached>(all);
  rows<16, 1, kCached>(all);
  rows<16, 2, kCached>(all);
  rows<32, 1, kCached>(all);
  rows<32, 2, kCached>(all);
  rows<32, 4, kCached>(all);
  rows<32, 8, kCached>(all);
  rows<32, 8, kStream>(all);
  rows<64, 4, kCached>(all);
  rows<64, 4, kStream>(all);
  rows<64, 8, kStream>(all);
  rows<128, 2, kCached>(all);
  rows<128, 2, kStream>(all);
  rows<128, 4, kCached>(all);
  rows<128, 4, kStream>(all);
  rows<128, 8, kCached>(all);
  rows<256, 1, kCached>(all);
  rows<256, 1, kStream>(all);
  rows<256, 2, kCached>(all);
  rows<256, 2, kStream>(all);
  rows<256, 4, kCached>(all);
  rows<256, 4, kStream>(all);
  rows<256, 8, kCached>(all);
  rows<512, 2, kCached>(all);
  rows<512, 4, kCached>(all);
  rows<512, 8, kCached>(all);
  rows<512, 16, kCached>(all);
  rows<1024, 2, kCached>(all);
  rows<1024, 4, kCached>(all);
  hybrid<512, 2, 6, 2>(all);
  hybrid<512, 4, 4, 2>(all);
  hybrid<256, 8, 8, 4>(all);
  hybrid<256, 4, 12, 4>(all);
  hybrid<512, 4, 12, 2>(all);
  hybrid<512, 6, 10, 2>(all);
  hybrid<512, 8, 8, 2>(all);
  hybrid<256, 8, 24, 2>(all);
  hybrid<1024, 4, 4, 1>(all);
  hybrid<1024, 4, 12, 1>(all);
  hybrid<1024, 6, 10, 1>(all);
  hybrid<512, 8, 24, 1>(all);
  hybrid<512, 16, 16, 1>(all);
  twice<512, 4, Hint::kNone, false>(all);
  twice<512, 4, Hint::kNone, true>(all);
  twice<512, 4, Hint::kEvictFirst, false>(all);
  twice<512, 4, Hint::kEvictFirst, true>(all);
  twice<512, 8, Hint::kEvictFirst, true>(all);
  twice<256, 8, Hint::kEvictFirst, true>(all);
  twice<1024, 4, Hint::kNone, false>(all);
  twice<1024, 4, Hint::kEvictFirst, true>(all);
}
