// nvcc for the stand-in: compiles a .cu file as plain C++, with `<<<…>>>` as a call. VERSION is set by the test.
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <vector>

using Words = std::vector<std::string>;

static void run(const Words& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) exit(1);
}

// The beginning of the expression before `at`: a name, with its template arguments.
static size_t callee(const std::string& text, size_t at) {
  int depth = 0;
  while (at > 0) {
    const char c = text[at - 1];
    if (c == '>') ++depth;
    if (c == '<') --depth;
    if (depth == 0 && c != '<' && !isalnum(static_cast<unsigned char>(c)) && c != '_' && c != ':') break;
    --at;
  }
  return at;
}

static void replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

int main(int count, char** given) {
  const Words all(given + 1, given + count);
  std::string source, object, dependencies, folder, arch, host = "g++";
  Words includes;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto next = [&] { return all.at(++i); };
    if (all[i] == "--version") {
      std::cout << "Cuda compilation tools, release 13.0, V" VERSION "\n";
      return 0;
    }
    if (all[i] == "-o") object = next();
    else if (all[i] == "-MF") dependencies = next();
    else if (all[i] == "--keep-dir") folder = next();
    else if (all[i] == "-ccbin") host = next();
    else if (all[i] == "-I") includes.insert(includes.end(), {"-I", next()});
    else if (all[i] == "-gencode") arch = next();
    else if ( all[i] == "-Xptxas" || all[i] == "-Xcompiler" || all[i] == "-Werror") ++i;
    else if (all[i].size() > 3 && all[i].substr(all[i].size() - 3) == ".cu") source = all[i];
  }
  const std::string whole = folder + "/unit.ii";
  std::string headers = given[0];
  headers = headers.substr(0, headers.rfind("/bin/")) + "/include";
  Words command = {host, "-E", "-x", "c++", "-std=c++17", "-I", headers, "-MMD", "-MF", dependencies, "-o", whole};
  // `arch=compute_75,…`
  command.push_back("-DSTAND_IN_ARCH=" + arch.substr(arch.find('_') + 1, arch.find(',') - arch.find('_') - 1));
  command.insert(command.end(), includes.begin(), includes.end());
  command.insert(command.end(), {"-include", "cuda_runtime.h", source});
  run(command);
  std::stringstream read;
  read << std::ifstream(whole).rdbuf();
  std::string text = read.str();
  for (size_t open; (open = text.find("<<<")) != std::string::npos;) {
    text.replace(text.find(">>>", open), 3, ")");
    text.replace(open, 3, ", ");
    text.insert(callee(text, open), "stand_in::launch(");
  }
  // A kernel is found by its dynamic symbol.
  replace(text, "static __attribute__((noinline))", "__attribute__((noinline))");
  replace(text, "asm volatile(\"trap;\")", "__builtin_trap()");
  std::ofstream(whole) << text;
  run({host, "-c", "-x", "c++-cpp-output", "-std=c++17", "-O2", "-fPIC", "-fno-gnu-unique", "-ffp-contract=off", "-w", "-o",
       object, whole});
  // Without the start files, which have variables.
  run({host, "-shared", "-nostartfiles", "-Wl,--defsym,__dso_handle=0", "-o", folder + "/unit.cubin", object});
  // What a driver compiles from PTX.
  std::ofstream(folder + "/unit.ptx", std::ios::binary) << std::ifstream(folder + "/unit.cubin", std::ios::binary).rdbuf();
}
