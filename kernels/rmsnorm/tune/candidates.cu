// The kernels of one type and operation: compile with -DTUNE_ELEMENT=BF16 -DTUNE_ADD=0 -DTUNE_NAME=candidates_bf16
// -DTUNE_BREADTH=2 (1: the large shapes' alone).
#include <type_traits>

#include "candidates.h"
#include "persistent.cuh"

namespace {

using T = TUNE_ELEMENT;
constexpr int N = 16 / sizeof(T);
constexpr bool kAdd = TUNE_ADD != 0;
constexpr const char* kAccess[] = {"c", "s", "e"};

Element element() { return sizeof(T) == 4 ? Element::f32 : std::is_same_v<T, F16> ? Element::f16 : Element::bf16; }

template <int TPR, int NV, bool CLUSTER, Access LOAD, Access STORE, bool EARLY>
void rows(std::vector<Candidate>& all) {
  all.push_back({std::string(CLUSTER ? "cluster " : "rows ") + std::to_string(TPR) + "x" + std::to_string(NV) + " ld=" +
                     kAccess[LOAD] + " st=" + kAccess[STORE] + (EARLY ? " w=early" : " w=late"),
                 reinterpret_cast<const void*>(rms_norm_rows<T, N, TPR, NV, kAdd, CLUSTER, LOAD, STORE, EARLY>),
                 element(), kAdd, TPR, NV, CLUSTER, false});
}

template <int TPR, int NV, Access LOAD, Access STORE, bool PREFETCH>
void persistent(std::vector<Candidate>& all) {
  all.push_back({std::string("persistent ") + std::to_string(TPR) + "x" + std::to_string(NV) + " ld=" + kAccess[LOAD] +
                     " st=" + kAccess[STORE] + (PREFETCH ? " prefetch" : ""),
                 reinterpret_cast<const void*>(rms_norm_persistent<T, N, TPR, NV, kAdd, LOAD, STORE, PREFETCH>),
                 element(), kAdd, TPR, NV, false, true});
}

// Every useful pair of cache policies.
template <int TPR, int NV, bool EARLY>
void policies(std::vector<Candidate>& all) {
  rows<TPR, NV, false, kCached, kCached, EARLY>(all);
  rows<TPR, NV, false, kStream, kStream, EARLY>(all);
#if TUNE_BREADTH > 1
  rows<TPR, NV, false, kStream, kCached, EARLY>(all);
  rows<TPR, NV, false, kEvictFirst, kCached, EARLY>(all);
  rows<TPR, NV, false, kEvictFirst, kEvictFirst, EARLY>(all);
#endif
}

}  // namespace

void TUNE_NAME(std::vector<Candidate>& all) {
  policies<32, 4, true>(all);
  policies<128, 3, true>(all);
  policies<128, 4, true>(all);
  policies<128, 8, false>(all);
  policies<256, 2, true>(all);
  policies<256, 4, true>(all);
  policies<16, 1, true>(all);
  policies<8, 2, true>(all);
  rows<256, 8, false, kStream, kStream, false>(all);
  rows<512, 4, false, kStream, kStream, true>(all);
  rows<512, 16, false, kStream, kStream, false>(all);
  persistent<128, 4, kStream, kStream, true>(all);
  persistent<256, 4, kStream, kStream, true>(all);
  persistent<256, 4, kStream, kStream, false>(all);
  rows<256, 8, true, kStream, kStream, false>(all);
  rows<512, 8, true, kStream, kStream, false>(all);
  rows<256, 4, true, kStream, kStream, true>(all);
#if TUNE_BREADTH > 1
  policies<128, 2, true>(all);
  policies<256, 1, true>(all);
  policies<32, 8, true>(all);
  policies<64, 4, true>(all);
  policies<512, 1, true>(all);
  policies<32, 2, true>(all);
  policies<32, 1, true>(all);
  policies<16, 2, true>(all);
  policies<8, 1, true>(all);
  policies<8, 4, true>(all);
  policies<128, 5, true>(all);
  policies<256, 3, true>(all);
  rows<128, 8, false, kStream, kStream, true>(all);
  rows<512, 2, false, kCached, kCached, true>(all);
  rows<512, 2, false, kStream, kStream, true>(all);
  rows<256, 8, false, kCached, kCached, false>(all);
  rows<512, 8, false, kStream, kStream, false>(all);
  rows<1024, 4, false, kStream, kStream, true>(all);
  rows<1024, 8, false, kStream, kStream, false>(all);
  rows<256, 8, true, kCached, kCached, false>(all);
  rows<512, 4, true, kStream, kStream, true>(all);
  rows<128, 8, true, kStream, kStream, false>(all);
  rows<1024, 8, true, kStream, kStream, false>(all);
  rows<128, 1, true, kCached, kCached, true>(all);
  rows<128, 2, true, kCached, kCached, true>(all);
  persistent<128, 2, kStream, kStream, true>(all);
  persistent<256, 2, kStream, kStream, true>(all);
  persistent<128, 8, kStream, kStream, true>(all);
  persistent<128, 8, kStream, kStream, false>(all);
  persistent<256, 4, kEvictFirst, kEvictFirst, true>(all);
  persistent<16, 1, kStream, kStream, true>(all);
  persistent<256, 8, kStream, kStream, false>(all);
  persistent<512, 4, kStream, kStream, true>(all);
#endif
}
