// The candidate configurations: one entry a kernel and way to launch it.
#pragma once
#include <string>
#include <vector>

enum class Element { f32, f16, bf16 };

struct Candidate {
  std::string name;
  const void* kernel;
  Element element;
  bool add;
  int threads_per_row, packs_per_thread;
  int shared_bytes = 0;
  int64_t least_packs = 0, most_packs = 0;  // 0: as the layout holds
};

// One file a type and operation defines each of these, so that they compile side by side.
void candidates_bf16(std::vector<Candidate>&);
void candidates_bf16_add(std::vector<Candidate>&);
void candidates_f16(std::vector<Candidate>&);
void candidates_f32(std::vector<Candidate>&);
