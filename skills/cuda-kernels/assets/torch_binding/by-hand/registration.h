// What a binding needs to become a module of Python, and to register its operators under a name that is a macro.
// Written by `kernels build --torch`; kernel-builder writes its own under the same name.
#pragma once

#define KERNELS_JOIN_(a, b) a##b
#define KERNELS_JOIN(a, b) KERNELS_JOIN_(a, b)
#define KERNELS_QUOTE_(a) #a
#define KERNELS_QUOTE(a) KERNELS_QUOTE_(a)

// torch's macros paste the name that they are given. One more level expands it first.
#define TORCH_LIBRARY_EXPAND(name, module) TORCH_LIBRARY(name, module)
#define TORCH_LIBRARY_IMPL_EXPAND(name, key, module) TORCH_LIBRARY_IMPL(name, key, module)
#define STABLE_TORCH_LIBRARY_EXPAND(name, module) STABLE_TORCH_LIBRARY(name, module)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(name, key, module) STABLE_TORCH_LIBRARY_IMPL(name, key, module)

// Python's stable ABI, as much as an empty module takes: no headers of Python are needed, and where a binding
// includes them, nothing here contradicts them.
struct KernelsModuleDef {
  long references;
  void* type;
  void* (*init)();
  long index;
  void* copy;
  const char* name;
  const char* documentation;
  long size;
  void* methods;
  void* slots;
  void* traverse;
  void* clear;
  void* release;
};
extern "C" void* kernels_module_create(KernelsModuleDef*, int) __asm__("PyModule_Create2");

// Importing the file registers the operators; the module itself is empty. 3 is the version of the stable ABI.
#define REGISTER_EXTENSION(name)                                                                           \
  extern "C" __attribute__((visibility("default"))) void* KERNELS_JOIN(PyInit_, name)() {                  \
    static KernelsModuleDef module = {1,       nullptr, nullptr, 0,       nullptr, KERNELS_QUOTE(name), \
                                      nullptr, 0,       nullptr, nullptr, nullptr, nullptr, nullptr};      \
    return kernels_module_create(&module, 3);                                                              \
  }
