// Random operations on files of a mount, with a model of each file in memory: what is read must be what was written,
// byte for byte, but for the elements of arrays under a bound, which a seal may move within it, once.
//
//   random_files ROOT [--seed N] [--threads N] [--rounds N] [--operations N] [--only SLOT] [--verbose]
//                     [--pattern FILE]...
//
// Each thread has files of its own in the folders abs, pwrel, bits, rel and exact of ROOT, whose bounds are abs:0.01,
// pwrel:1e-3, bits:10, rel:1e-4 and none. After each round nothing is open, the program prints "round N" and waits for
// a line: whoever started it may mount anew meanwhile. Then each file is read as a whole. The same seed makes the same
// operations. --only takes a file's name: of that slot alone. --pattern names a file to copy into the mount and change;
// FILE.spans says in lines "offset bytes size" where; of size 4 or 8 are elements under a bound, of size 1 bytes.
// Exit status: 0, 1 (a difference, told on stderr with the last operations on that file), 2 (wrong use).
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "random_worker.h"

namespace varve::posix {
namespace {

struct Options {
  std::string root, only;
  std::vector<std::string> patterns;
  uint64_t seed = 1, threads = 3, rounds = 3, operations = 400;
  bool verbose = false;
};

thread_local const Worker* this_worker = nullptr;

void on_bus_error(int /*signal*/) {
  if (this_worker != nullptr) {
    const char* const text = this_worker->current();
    static_cast<void>(!::write(STDERR_FILENO, "SIGBUS in ", 10));
    static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
    static_cast<void>(!::write(STDERR_FILENO, "\n", 1));
  }
  _exit(1);
}

std::vector<Slot> make_slots(const Options& options, uint64_t thread) {
  const Bound absolute{Bound::Kind::absolute, 0.01};
  const Bound pointwise{Bound::Kind::pointwise, 1e-3};
  const auto slot = [](Kind kind, const char* folder, const char* name, Bound bound, const char* type) {
    return Slot{kind, folder, name, bound, type, {}, {}};
  };
  std::vector<Slot> slots = {
      slot(Kind::bytes, "exact", "bytes", {}, ""),
      slot(Kind::bytes, "abs", "bytes", {}, ""),
      slot(Kind::npy, "abs", "f4.npy", absolute, "<f4"),
      slot(Kind::npy, "abs", "f8.npy", absolute, "<f8"),
      slot(Kind::npy, "abs", "i4.npy", {}, "<i4"),
      slot(Kind::npy, "exact", "exact.npy", {}, "<f4"),
      slot(Kind::npy, "pwrel", "pwrel.npy", pointwise, "<f8"),
      slot(Kind::npy, "bits", "bits.npy", {Bound::Kind::mantissa, 10}, "<f4"),
      slot(Kind::npy, "rel", "rel.npy", {Bound::Kind::relative, 1e-4}, "<f4"),
      slot(Kind::raw, "abs", "raw_100x40x50.f32", absolute, "<f4"),
      slot(Kind::raw, "pwrel", "raw_100x40x50.f64", pointwise, "<f8"),
  };
  for (const std::string& path : options.patterns) {
    Slot pattern = slot(Kind::pattern, "abs", path.substr(path.rfind('/') + 1).c_str(), absolute, "");
    std::ifstream file(path, std::ios::binary);
    pattern.pattern.assign(std::istreambuf_iterator<char>(file), {});
    std::ifstream spans(path + ".spans");
    for (Span span; spans >> span.offset >> span.bytes >> span.size;) {
      pattern.type = span.size == 1 ? "" : "<f4";
      pattern.bound = span.size == 1 ? Bound() : absolute;
      pattern.spans.push_back(span);
    }
    slots.push_back(std::move(pattern));
  }
  if (!options.only.empty()) {
    std::erase_if(slots, [&](const Slot& one) { return one.directory + "/" + one.name != options.only; });
  }
  for (Slot& one : slots) {
    one.directory = fmt::format("{}/{}/{}", options.root, one.directory, thread);
  }
  return slots;
}

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto number = [&] { return ++i < count ? std::strtoull(words[i], nullptr, 10) : 0; };
    if (word == "--seed") {
      options.seed = number();
    } else if (word == "--threads") {
      options.threads = number();
    } else if (word == "--rounds") {
      options.rounds = number();
    } else if (word == "--operations") {
      options.operations = number();
    } else if (word == "--verbose") {
      options.verbose = true;
    } else if (word == "--only" && i + 1 < count) {
      options.only = words[++i];
    } else if (word == "--pattern" && i + 1 < count) {
      options.patterns.emplace_back(words[++i]);
    } else if (options.root.empty() && !word.starts_with("--")) {
      options.root = word;
    } else {
      return false;
    }
  }
  return !options.root.empty() && options.threads > 0;
}

/// Runs an action of each worker on a thread of its own. False: something differed.
template <typename Action>
bool all(std::vector<std::unique_ptr<Worker>>& workers, const Action& action) {
  std::mutex mutex;
  bool good = true;
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&, one = worker.get()] {
      this_worker = one;
      try {
        action(*one);
      } catch (const Differs& difference) {
        const std::lock_guard lock(mutex);
        std::cerr << difference.what() << std::endl;
        good = false;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return good;
}

int run(const Options& options) {
  std::signal(SIGBUS, on_bus_error);
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t thread = 0; thread < options.threads; ++thread) {
    std::vector<Slot> slots = make_slots(options, thread);
    for (const Slot& slot : slots) {
      mkdir(slot.directory.c_str(), 0755);
    }
    workers.push_back(std::make_unique<Worker>(options.seed * 1000 + thread, std::move(slots), options.verbose));
  }
  bool good = all(workers, [](Worker& worker) { worker.create_files(); });
  for (uint64_t round = 1; good && round <= options.rounds; ++round) {
    good = all(workers, [&](Worker& worker) {
      worker.operate(options.operations);
      worker.close_all();
    });
    if (!good) {
      break;
    }
    std::cout << "round " << round << std::endl;
    std::string line;
    if (!std::getline(std::cin, line)) {
      return 2;
    }
    good = all(workers, [](Worker& worker) { worker.check_all(); });
  }
  uint64_t operations = 0;
  for (const auto& worker : workers) {
    operations += worker->operations();
  }
  if (!good) {
    std::cerr << "again: --seed " << options.seed << " --threads " << options.threads << " --rounds " << options.rounds
              << " --operations " << options.operations << std::endl;
    return 1;
  }
  std::cout << "equal " << operations << std::endl;
  return 0;
}

}  // namespace
}  // namespace varve::posix

int main(int count, char** words) {
  varve::posix::Options options;
  if (!varve::posix::parse(count, words, options)) {
    std::cerr << "usage: random_files ROOT [--seed N] [--threads N] [--rounds N] [--operations N] [--only FOLDER/NAME] "
                 "[--pattern FILE]... [--verbose]\n";
    return 2;
  }
  return varve::posix::run(options);
}
