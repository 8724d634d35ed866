// A driver without a card, for tests: device memory is host memory, kernels are host functions (cuda_runtime.h), and the
// clock is a model. It has what src/gpu calls.
//
// Threads have streams and clocks of their own; a fault loses the context of all. STAND_IN_ARCH is the compute capability, 75.
//
// Work is done at once. A launch takes 0.2 µs and 1 ns a block, or what the kernel says; a copy its bytes at the peak. An event
// is reached once the host's clock has gone on by the time of the work before it, of which a launch counts for at most LONGEST.
// Its first query says that it has not been reached, as when the queue is full, but for the first query of every STAND_IN_LATE-th
// event.
#include <elf.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda_runtime.h"

// A slot has one thread, whose sum is that of all.
#define __shfl_down_sync(mask, sum, lane) 0
#include "contents.cu"
#undef __shfl_down_sync

// The kernels of slots' contents, with one thread a slot.
template <typename Kernel>
static void each_slot(Kernel kernel) {
  stand_in::Place& place = stand_in::place;
  place.grid.x = place.block.x = 1;
  for (place.index.y = 0; place.index.y < place.grid.y; ++place.index.y) kernel();
  stand_in::done = true;
}
static void contents(const Region region, uint8_t* image, uint64_t seed, int64_t first, uint64_t count, uint32_t operation) {
  each_slot([&] { kernels_contents(region, image, seed, first, count, operation); });
}
static void digest(const Region region, const uint8_t* image, uint64_t key, unsigned long long* sums) {
  each_slot([&] { kernels_digest(region, image, key, sums); });
}

extern "C" void kernels_copy(uint4* to, const uint4* from, uint64_t packs) {
  memcpy(to, from, packs * sizeof(uint4));
  stand_in::done = true;
}

// kernels_compare, with a quick answer where nothing differs.
static void compare(const uint4* one, const uint4* other, uint64_t packs, unsigned long long* found) {
  const bool first = blockIdx.x == 0 && threadIdx.x == 0;
  stand_in::done = first && memcmp(one, other, packs * sizeof(uint4)) == 0;
  if (!stand_in::done) kernels_compare(one, other, packs, found);
}

namespace {

enum Result { DONE, INVALID_VALUE = 1, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };
using Invoke = void(void*, const dim3*, void**, size_t*);
using Bytes = std::vector<char>;

constexpr double MEMORY_GBS = 1000, L2_GBS = 2048;
constexpr double LONGEST = 1e4;  // µs
constexpr uint64_t MEMORY = 256 << 20;

struct Function {
  std::string name;
  void* kernel;
  Invoke* invoke;
  std::vector<size_t> sizes;
};

// A launch, or a copy where there is no function.
struct Node {
  Function* function;
  dim3 shape[2];
  unsigned shared;
  std::vector<Bytes> values;
  std::vector<void*> arguments;
  void* to;
  const void* from;
  size_t bytes;
};
using Graph = std::deque<Node>;

struct Module {
  void* library = nullptr;
  // Open as long as the library: the loader knows libraries by their paths, and this is one of a number.
  int file = -1;
  std::string image;
};
struct Event {
  double at;       // on the model's clock
  double reached;  // on the host's
  bool asked;
};

std::mutex mutex;
std::map<std::string, Function> functions;
std::map<void*, size_t> memory;
uint64_t allocated;
thread_local Graph* capturing;
thread_local double now, taken;
// When the work queued so far ends on the host's clock.
thread_local double ends;
std::atomic<bool> lost;
thread_local sigjmp_buf fault;
thread_local volatile bool running;

int arch() {
  static const char* set = getenv("STAND_IN_ARCH");
  return set ? atoi(set) : 75;
}

double host_clock() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

void takes(double microseconds) {
  now += microseconds;
  ends = std::max(ends, host_clock()) + std::min(microseconds, LONGEST);
}

void on_fault(int number) {
  if (running) siglongjmp(fault, 1);
  signal(number, SIG_DFL);
}

Function* function(const std::string& name, void* kernel, Invoke* invoke) {
  Function made{name, kernel, invoke, {}};
  size_t sizes[256];
  invoke(kernel, nullptr, nullptr, sizes);
  for (size_t* size = sizes; *size; ++size) made.sizes.push_back(*size);
  const std::lock_guard<std::mutex> lock(mutex);
  // Code paths have kernels of the same name.
  return &functions.try_emplace(name + "#" + std::to_string(reinterpret_cast<uintptr_t>(kernel)), made).first->second;
}

template <typename... A>
Function* own(const char* name, void (*kernel)(A...)) {
  return function(name, reinterpret_cast<void*>(kernel), reinterpret_cast<Invoke*>(stand_in::invoke<A...>));
}

int perform(Node& node) {
  if (lost) return ILLEGAL_ADDRESS;
  if (capturing) {
    capturing->push_back(node);
    Node& kept = capturing->back();
    kept.arguments.clear();
    for (Bytes& value : kept.values) kept.arguments.push_back(value.data());
    return DONE;
  }
  if (!node.function) {
    memcpy(node.to, node.from, node.bytes);
    takes(0.1 + node.bytes * 2 / MEMORY_GBS / 1e3);
    return DONE;
  }
  taken = -1;
  if (sigsetjmp(fault, 1)) {
    running = false;
    lost = true;
    return DONE;
  }
  running = true;
  node.function->invoke(node.function->kernel, node.shape, node.arguments.data(), nullptr);
  running = false;
  const double blocks = double(node.shape[0].x) * node.shape[0].y * node.shape[0].z;
  takes(taken >= 0 ? taken : 0.2 + blocks / 1000);
  return DONE;
}

int launch(Function* function, const dim3* shape, unsigned shared, void** arguments) {
  Node node{function, {shape[0], shape[1]}, shared, {}, {}, nullptr, nullptr, 0};
  for (size_t i = 0; i < function->sizes.size(); ++i) {
    const char* from = static_cast<char*>(arguments[i]);
    node.values.emplace_back(from, from + function->sizes[i]);
  }
  for (Bytes& value : node.values) node.arguments.push_back(value.data());
  return perform(node);
}

// The symbols of a cubin: all, also those of internal linkage.
template <typename Each>
void symbols(const std::string& image, Each each) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* all = reinterpret_cast<const Elf64_Sym*>(image.data() + sections[i].sh_offset);
    const char* names = image.data() + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) each(names + all[s].st_name, all[s]);
  }
}

}  // namespace

#define CU(name) extern "C" int cu##name

// ------------------------------------------------------------------------------------- for cuda_runtime.h

extern "C" void stand_in_takes(double microseconds) { taken = microseconds; }

extern "C" int stand_in_capturing() { return capturing != nullptr; }

// The runtime's launch. A kernel's name here is that of its symbol and of the function that calls it.
extern "C" int stand_in_launch(void* kernel, void* invoke, const dim3* shape, size_t shared, void*, void** arguments) {
  Dl_info one, two;
  if (!dladdr(kernel, &one) || !dladdr(invoke, &two) || !one.dli_sname || !two.dli_sname) return NOT_FOUND;
  const std::string name = std::string(one.dli_sname) + "@" + two.dli_sname;
  return launch(function(name, kernel, reinterpret_cast<Invoke*>(invoke)), shape, shared, arguments);
}

// ---------------------------------------------------------------------------------------- device and context

CU(Init)(unsigned) { return DONE; }
CU(DriverGetVersion)(int* version) { return *version = 13000, DONE; }
CU(DeviceGetCount)(int* count) { return *count = 1, DONE; }
CU(DeviceGet)(int* device, int) { return *device = 0, DONE; }
CU(DeviceGetName)(char* name, int length, int) { return snprintf(name, length, "stand-in of the tests"), DONE; }
CU(DeviceTotalMem_v2)(size_t* bytes, int) { return *bytes = MEMORY, DONE; }
CU(DeviceGetAttribute)(int* value, int attribute, int) {
  switch (attribute) {
    case 13: *value = L2_GBS / 64 / 16 * 1e6; break;     // clock rate, kHz
    case 16: *value = 16; break;                         // multiprocessors
    case 36: *value = MEMORY_GBS * 8 / 2 / 4000 * 1e6; break;  // memory clock, kHz
    case 37: *value = 4000; break;                       // width of the memory bus, bits
    case 38: *value = 64 << 10; break;                   // L2
    case 75: *value = arch() / 10; break;                // compute capability
    case 76: *value = arch() % 10; break;
    default: *value = 0;
  }
  return DONE;
}
CU(DevicePrimaryCtxRetain)(void** context, int) { return *context = &functions, DONE; }
CU(DevicePrimaryCtxRelease_v2)(int) { return DONE; }
CU(CtxSetCurrent)(void*) { return DONE; }
CU(CtxGetCurrent)(void** context) { return *context = &functions, DONE; }
CU(CtxSynchronize)() { return lost ? ILLEGAL_ADDRESS : DONE; }
CU(GetErrorString)(int code, const char** text) {
  return *text = code == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "the stand-in refuses", DONE;
}
CU(GetErrorName)(int, const char** text) { return *text = "CUDA_ERROR", DONE; }

// --------------------------------------------------------------------------------------------------- memory

// Pages that cannot be accessed lie on both sides, where the process may have some: more than the tests write beyond their memory.
constexpr size_t SIDE = 64 << 20;
CU(MemAlloc_v2)(void** address, size_t bytes) {
  const size_t all = (bytes + 4095) / 4096 * 4096 + 2 * SIDE;
  const std::lock_guard<std::mutex> lock(mutex);
  if (allocated + bytes > MEMORY) return 2;
  char* begin = static_cast<char*>(mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (char* side : {begin, begin + all - SIDE}) mprotect(side, SIDE, PROT_NONE);
  *address = begin + SIDE;
  memory[*address] = bytes;
  allocated += bytes;
  return DONE;
}
CU(MemFree_v2)(char* address) {
  const std::lock_guard<std::mutex> lock(mutex);
  const size_t bytes = memory[address];
  memory.erase(address);
  allocated -= bytes;
  return munmap(address - SIDE, (bytes + 4095) / 4096 * 4096 + 2 * SIDE);
}
CU(MemHostAlloc)(void** address, size_t bytes, unsigned) { return (*address = malloc(bytes)) ? DONE : 2; }
CU(MemFreeHost)(void* address) { return free(address), DONE; }
CU(MemGetInfo_v2)(size_t* free, size_t* total) { return *free = MEMORY - allocated, *total = MEMORY, DONE; }
CU(MemcpyHtoDAsync_v2)(void* to, const void* from, size_t bytes, void*) {
  return lost ? ILLEGAL_ADDRESS : (memcpy(to, from, bytes), DONE);
}
CU(MemcpyDtoHAsync_v2)(void* to, const void* from, size_t bytes, void*) {
  return lost ? ILLEGAL_ADDRESS : (memcpy(to, from, bytes), DONE);
}
CU(MemcpyHtoD_v2)(void* to, const void* from, size_t bytes) { return memcpy(to, from, bytes), DONE; }
CU(MemcpyDtoH_v2)(void* to, const void* from, size_t bytes) { return memcpy(to, from, bytes), DONE; }
CU(MemcpyDtoDAsync_v2)(void* to, const void* from, size_t bytes, void*) {
  Node node{nullptr, {}, 0, {}, {}, to, from, bytes};
  return perform(node);
}
CU(MemsetD8Async)(void* to, unsigned char byte, size_t bytes, void*) { return memset(to, byte, bytes), DONE; }

// ------------------------------------------------------------------------------------------ streams and events

CU(StreamCreate)(void** stream, unsigned) { return *stream = &now, DONE; }
CU(StreamDestroy_v2)(void*) { return DONE; }
CU(EventCreate)(Event** event, unsigned) { return *event = new Event{now, ends, true}, DONE; }
CU(EventDestroy_v2)(Event* event) { return delete event, DONE; }
CU(EventRecord)(Event* event, void*) { return *event = {now, ends, false}, lost ? ILLEGAL_ADDRESS : DONE; }
CU(EventQuery)(Event* event) {
  if (lost) return ILLEGAL_ADDRESS;
  static const char* late = getenv("STAND_IN_LATE");
  static std::atomic<int> asked;
  if (!std::exchange(event->asked, true)) return late && *late && ++asked % atoi(late) == 0 ? DONE : NOT_READY;
  return host_clock() >= event->reached ? DONE : NOT_READY;
}
CU(EventElapsedTime_v2)(float* milliseconds, Event* from, Event* to) {
  return *milliseconds = (to->at - from->at) / 1e3, DONE;
}

// ----------------------------------------------------------------------------------------- modules and launches

CU(ModuleLoadData)(Module** module, const char* image) {
  *module = new Module;
  if (memcmp(image, ELFMAG, SELFMAG) != 0) {
    // The harness's own PTX: its kernels are here.
    own("kernels_contents", contents);
    own("kernels_digest", digest);
    own("kernels_compare", compare);
    own("kernels_wait", kernels_wait);
    own("kernels_copy", kernels_copy);
    own("kernels_copy_stream", kernels_copy);
    return DONE;
  }
  for (int number : {SIGSEGV, SIGBUS, SIGILL}) signal(number, on_fault);
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image);
  (*module)->image.assign(image, header->e_shoff + size_t(header->e_shnum) * header->e_shentsize);
  const int file = (*module)->file = memfd_create("cubin", MFD_CLOEXEC);
  const auto& bytes = (*module)->image;
  if (write(file, bytes.data(), bytes.size()) != ssize_t(bytes.size())) return INVALID_VALUE;
  (*module)->library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!(*module)->library) fprintf(stderr, "%s\n", dlerror());
  return (*module)->library ? DONE : INVALID_VALUE;
}
CU(ModuleUnload)(Module* module) {
  if (module->library) dlclose(module->library);
  if (module->file >= 0) close(module->file);
  return delete module, DONE;
}
CU(ModuleGetFunction)(Function** found, Module* module, const char* name) {
  if (!module->library) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto known = functions.lower_bound(std::string(name) + "#");
    return known == functions.end() || known->second.name != name ? NOT_FOUND : (*found = &known->second, DONE);
  }
  const std::string text = name;
  const size_t at = text.find('@');
  if (at == std::string::npos) return NOT_FOUND;
  void* kernel = dlsym(module->library, text.substr(0, at).c_str());
  void* invoke = dlsym(module->library, text.substr(at + 1).c_str());
  if (!kernel || !invoke) return NOT_FOUND;
  return *found = function(text, kernel, reinterpret_cast<Invoke*>(invoke)), DONE;
}
CU(ModuleGetGlobal_v2)(void** address, size_t* bytes, Module* module, const char* name) {
  Dl_info info{};
  uint64_t base = 0;
  symbols(module->image, [&](const char* symbol, const Elf64_Sym& entry) {
    void* known = ELF64_ST_BIND(entry.st_info) == STB_GLOBAL && entry.st_shndx != SHN_UNDEF ? dlsym(module->library, symbol) : nullptr;
    if (known && dladdr(known, &info)) base = reinterpret_cast<uint64_t>(info.dli_fbase);
  });
  int result = NOT_FOUND;
  symbols(module->image, [&](const char* symbol, const Elf64_Sym& entry) {
    if (entry.st_shndx == SHN_UNDEF || strcmp(symbol, name) != 0) return;
    *address = reinterpret_cast<void*>(base + entry.st_value);
    *bytes = entry.st_size;
    result = DONE;
  });
  return result;
}
CU(FuncGetName)(const char** name, Function* function) { return *name = function->name.c_str(), DONE; }
CU(FuncGetParamInfo)(Function* function, size_t index, size_t* offset, size_t* size) {
  if (index >= function->sizes.size()) return INVALID_VALUE;
  return *offset = 0, *size = function->sizes[index], DONE;
}
CU(FuncGetAttribute)(int*, int, Function*) { return INVALID_VALUE; }
CU(FuncSetAttribute)(Function*, int, int) { return DONE; }

struct Config {
  unsigned grid[3], block[3], shared;
  void* stream;
};
CU(LaunchKernelEx)(const Config* config, Function* function, void** arguments, void**) {
  const dim3 shape[2] = {{config->grid[0], config->grid[1], config->grid[2]},
                         {config->block[0], config->block[1], config->block[2]}};
  return launch(function, shape, config->shared, arguments);
}

// --------------------------------------------------------------------------------------------------- graphs

CU(StreamBeginCapture_v2)(void*, int) { return capturing = new Graph, DONE; }
CU(StreamEndCapture)(void*, Graph** graph) { return *graph = std::exchange(capturing, nullptr), DONE; }
CU(GraphInstantiateWithFlags)(Graph** executable, Graph* graph, uint64_t) { return *executable = graph, DONE; }
CU(GraphUpload)(Graph*, void*) { return DONE; }
CU(GraphLaunch)(Graph* graph, void*) {
  for (Node& node : *graph)
    if (const int failed = perform(node)) return failed;
  return DONE;
}
// The graph is its own executable.
CU(GraphExecDestroy)(Graph*) { return DONE; }
CU(GraphDestroy)(Graph* graph) { return delete graph, DONE; }
CU(GraphGetNodes)(Graph* graph, Node** nodes, size_t* count) {
  for (size_t i = 0; nodes && i < *count; ++i) nodes[i] = &(*graph)[i];
  return *count = graph->size(), DONE;
}
CU(GraphGetEdges_v2)(Graph* graph, Node** from, Node** to, uint64_t* data, size_t* count) {
  for (size_t i = 0; from && i < *count; ++i) from[i] = &(*graph)[i], to[i] = &(*graph)[i + 1], data[i] = 0;
  return *count = graph->empty() ? 0 : graph->size() - 1, DONE;
}
CU(GraphNodeGetType)(Node* node, int* type) { return *type = node->function ? 0 : 1, DONE; }
CU(GraphKernelNodeGetAttribute)(Node*, int, void*) { return INVALID_VALUE; }
struct Params {
  Function* function;
  unsigned grid[3], block[3], shared;
  void **arguments, **extra;
  void *kernel, *context;
};
CU(GraphKernelNodeGetParams_v2)(Node* node, Params* p) {
  const auto& [grid, block] = node->shape;
  *p = {node->function, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, node->shared, node->arguments.data(), nullptr,
        nullptr, nullptr};
  return DONE;
}
