// The kernels of one type and operation: compile with -DTUNE_ELEMENT=BF16 -DTUNE_ADD=0 -DTUNE_NAME=candidates_bf16.
// (and so on: see tune.cu)
#include <type_traits>

#include "candidates.h"
#include "hybrid.cuh"
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

template <int TPR, int NV, int NS, int BLOCKS, Access STORE>
void hybrid(std::vector<Candidate>& all) {
  Candidate c = {std::string("hybrid ") + std::to_string(TPR) + "x" + std::to_string(NV) + "+" + std::to_string(NS) + " blocks=" +
                     std::to_string(BLOCKS) + " st=" + kAccess[STORE],
                 reinterpret_cast<const void*>(rms_norm_hybrid<T, N, TPR, NV, NS, BLOCKS, kAdd, kCached, STORE>),
                 element(), kAdd, TPR, NV + NS};
  c.shared_bytes = NS * TPR * 16;
  all.push_back(c);
}

template <int THREADS, int GROUP, Access SECOND, Access STORE, bool REVERSE>
void twice(std::vector<Candidate>& all) {
  Candidate c = {std::string("twice ") + std::to_string(THREADS) + " group=" + std::to_string(GROUP) + " ld=" + kAccess[SECOND] +
                     " st=" + kAccess[STORE] + (REVERSE ? " reverse" : ""),
                 reinterpret_cast<const void*>(rms_norm_twice<T, N, THREADS, GROUP, kAdd, SECOND, STORE, REVERSE>),
                 element(), kAdd, THREADS, GROUP};
  c.least_packs = 4096, c.most_packs = INT64_MAX;
  all.push_back(c);
}

}  // namespace

void TUNE_NAME(std::vector<Candidate>& all) {
  rows<8, 1, false, kCached, kCached, true>(all);
  rows<8, 2, false, kCached, kCached, true>(all);
  rows<16, 1, false, kCached, kCached, true>(all);
  rows<16, 2, false, kCached, kCached, true>(all);
  rows<32, 4, false, kCached, kCached, true>(all);
  rows<32, 8, false, kCached, kCached, false>(all);
  rows<32, 8, false, kStream, kCached, false>(all);
  rows<64, 4, false, kCached, kCached, true>(all);
  rows<64, 4, false, kStream, kCached, true>(all);
  rows<128, 2, false, kCached, kCached, true>(all);
  rows<128, 2, false, kStream, kCached, true>(all);
  rows<256, 1, false, kCached, kCached, true>(all);
  rows<256, 1, false, kStream, kCached, true>(all);
  rows<128, 4, false, kCached, kCached, true>(all);
  rows<128, 4, false, kStream, kCached, true>(all);
  rows<64, 8, false, kCached, kCached, false>(all);
  rows<64, 8, false, kStream, kCached, false>(all);
  rows<256, 2, false, kCached, kCached, true>(all);
  rows<256, 2, false, kStream, kCached, true>(all);
  rows<256, 4, false, kCached, kCached, true>(all);
  rows<512, 2, false, kCached, kCached, true>(all);
  rows<128, 8, false, kCached, kCached, false>(all);
  rows<128, 16, false, kCached, kCached, false>(all);
  rows<256, 8, false, kCached, kCached, false>(all);
  rows<512, 4, false, kCached, kCached, true>(all);
  rows<1024, 2, false, kCached, kCached, true>(all);
  rows<256, 16, false, kCached, kCached, false>(all);
  rows<512, 8, false, kCached, kCached, false>(all);
  rows<1024, 4, false, kCached, kCached, true>(all);
  rows<1024, 4, false, kCached, kCached, false>(all);
  rows<512, 16, false, kCached, kCached, false>(all);
  hybrid<512, 2, 6, 2, kCached>(all);
  hybrid<512, 4, 4, 2, kCached>(all);
  hybrid<512, 4, 4, 3, kCached>(all);
  hybrid<256, 8, 8, 4, kCached>(all);
  hybrid<256, 4, 12, 4, kCached>(all);
  hybrid<512, 4, 12, 2, kCached>(all);
  hybrid<512, 4, 12, 2, kStream>(all);
  hybrid<512, 6, 10, 2, kCached>(all);
  hybrid<512, 8, 8, 2, kCached>(all);
  hybrid<256, 8, 24, 2, kCached>(all);
  hybrid<1024, 2, 6, 2, kCached>(all);
  hybrid<1024, 4, 4, 1, kCached>(all);
  hybrid<1024, 4, 12, 1, kCached>(all);
  hybrid<1024, 6, 10, 1, kCached>(all);
  hybrid<512, 8, 24, 1, kCached>(all);
  hybrid<512, 16, 16, 1, kCached>(all);
  twice<512, 4, kCached, kCached, false>(all);
  twice<512, 4, kCached, kStream, false>(all);
  twice<512, 4, kEvictFirst, kEvictFirst, false>(all);
  twice<512, 4, kEvictFirst, kEvictFirst, true>(all);
  twice<512, 8, kEvictFirst, kEvictFirst, true>(all);
  twice<1024, 4, kCached, kCached, false>(all);
  twice<1024, 4, kEvictFirst, kEvictFirst, true>(all);
}
