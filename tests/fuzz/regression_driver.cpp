// Runs a fuzz target without a fuzz engine: PROGRAM SECONDS FOLDER... All files of the folders first, then mutations of
// them until the time is over. A failing input is the last one written to fuzz-input in the working directory; one that
// takes over a minute fails.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

std::vector<Input> load(int count, char** folders) {
  std::vector<Input> corpus;
  for (int i = 0; i < count; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folders[i])) {
      if (entry.is_regular_file()) {
        std::ifstream in(entry.path(), std::ios::binary);
        corpus.emplace_back((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      }
    }
  }
  return corpus;
}

void mutate(Input& input, const std::vector<Input>& corpus, std::mt19937_64& random) {
  for (uint64_t steps = 1 + random() % 6; steps > 0; --steps) {
    size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(input.begin() + static_cast<ptrdiff_t>(at), 1 + random() % 8, static_cast<uint8_t>(random()));
        break;
      case 2:
        if (!input.empty()) {
          input[at] = static_cast<uint8_t>(random());
        }
        break;
      case 3:
        if (!input.empty()) {
          input[at] ^= static_cast<uint8_t>(1U << (random() % 8));
        }
        break;
      case 4: {  // a piece of another input
        const Input& other = corpus[random() % corpus.size()];
        size_t from = other.empty() ? 0 : random() % other.size();
        size_t count = std::min<size_t>(random() % 64, other.size() - from);
        input.insert(input.begin() + static_cast<ptrdiff_t>(at), other.begin() + static_cast<ptrdiff_t>(from),
                     other.begin() + static_cast<ptrdiff_t>(from + count));
        break;
      }
      default: {  // a piece of its own goes
        size_t count = std::min<size_t>(1 + random() % 16, input.size() - at);
        input.erase(input.begin() + static_cast<ptrdiff_t>(at), input.begin() + static_cast<ptrdiff_t>(at + count));
      }
    }
  }
}

/// The input that runs, so that a crash leaves it behind.
const Input* current = nullptr;

void write_current() {
  if (current != nullptr) {
    std::ofstream("fuzz-input", std::ios::binary)
        .write(reinterpret_cast<const char*>(current->data()), static_cast<std::streamsize>(current->size()));
  }
}

constexpr unsigned kHang = 60;  // seconds

void run(const Input& input) {
  current = &input;
  alarm(kHang);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
  current = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SECONDS FOLDER...\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, [](int) { write_current(); });
  std::signal(SIGALRM, [](int) {
    write_current();
    std::_Exit(124);
  });
  std::signal(SIGSEGV, [](int) {
    write_current();
    std::_Exit(139);
  });
  std::vector<Input> corpus = load(argc - 2, argv + 2);
  if (corpus.empty()) {
    std::fprintf(stderr, "no inputs in %s\n", argv[2]);
    return 2;
  }
  for (const Input& input : corpus) {
    run(input);
  }
  std::mt19937_64 random(1);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  size_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++count) {
    Input input = corpus[random() % corpus.size()];
    mutate(input, corpus, random);
    run(input);
  }
  std::printf("%zu inputs and %zu mutations of them\n", corpus.size(), count);
  return 0;
}
