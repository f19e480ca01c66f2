// Reads archive after archive as opprof-torchscript reads one: for
// benchmarks/torchscript_mutations.py, which cannot wait for LibTorch to be
// loaded thousands of times. A line of stdin names an archive and, after tabs,
// what --input says; one of stdout is its exit status there, and the first line
// of what is wrong.

#include "opprof/Torch/Archive.h"
#include "opprof/Torch/TorchScript.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <sstream>

using namespace opprof::torchscript;

static void readOne(const std::string &line, const Limits &limits) {
  ReadRequest request;
  std::istringstream words(line);
  std::getline(words, request.path, '\t');
  for (std::string input; std::getline(words, input, '\t');)
    request.inputs.push_back(input);
  request.operators = checkArchive(request.path).operators;
  std::vector<int> files =
      readContained(request, limits, 1, [&](const std::vector<int> &to) {
        ReadFiles wanted;
        wanted.graph = to[0];
        readTorchScript(request, wanted);
      });
  struct stat about;
  bool isEmpty = fstat(files[0], &about) != 0 || about.st_size == 0;
  close(files[0]);
  if (isEmpty)
    throw std::logic_error("there is no graph and no error");
}

int main(int argc, char **argv) {
  Limits limits;
  limits.memory = uint64_t(4) << 30;
  limits.seconds = 20;
  limits.sandbox = argc > 1 && std::strcmp(argv[1], "--sandbox") == 0;
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      readOne(line, limits);
      std::cout << "0" << std::endl;
    } catch (const InputError &error) {
      std::string what = printable(error.what());
      std::cout << "1 " << what.substr(0, what.find('\n')) << std::endl;
    }
  }
}
