// Flips each byte of a small store in turn, opens the store as a mount does, reads everything, and counts by kind of
// file what came of it: see docs/RELIABILITY.md.
//
//   flip_store FOLDER [EVERY [FIRST]] [--kind KIND]     every EVERYth byte of each file, from the FIRST on
//
// Exit status 1: wrong data was read, the process died, or a byte of a pack or of staging cost more than one file.
// FOLDER is emptied; on tmpfs it is fastest.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fs/filesystem.h"
#include "fs/formats/worker.h"

namespace varve::crash {
namespace {

namespace files = std::filesystem;
using Content = std::vector<std::byte>;

constexpr fs::Caller kCaller{.uid = 0, .gid = 0, .umask = 022, .pid = 1};
constexpr size_t kPiece = 4096;
constexpr unsigned kPatience = 30;  // seconds until an opening counts as hung, which is a death

enum Outcome : int { whole, corrected, refused_range, refused_store, wide, wrong, died, kOutcomes };
constexpr std::array<const char*, kOutcomes> kNames = {"no effect",       "corrected",  "EIO, one file", "refused",
                                                       "EIO, more files", "wrong data", "died"};

Content noise(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  Content bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  return bytes;
}

/// A .npy file of f4 values on a wave: of several levels, with a coarse record that has a copy.
Content array_file() {
  constexpr int kEdge = 48;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({0}, {0}, {0}), }}", kEdge);
  header.resize(117, ' ');
  std::string text = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n';
  std::mt19937 random(5);
  for (int i = 0; i < kEdge * kEdge * kEdge; ++i) {
    const float value = std::sin(static_cast<float>(i) * 0.001F) + static_cast<float>(random() % 64) * 0.0001F;
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const std::map<std::string, Content>& contents() {
  static const std::map<std::string, Content> all = {{"array.npy", array_file()},
                                                     {"plain", noise(1, 20'000)},
                                                     {"small", noise(2, 300)},
                                                     {"staged", noise(3, 70'000)},
                                                     {"noted", noise(4, 1'500)}};
  return all;
}

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "flip_store: {}\n", error.text);
  ::_exit(2);
}

template <typename T>
T must(Result<T> result) {
  return result.ok() ? *std::move(result) : (fail(result.error()), *std::move(result));
}

Result<std::unique_ptr<fs::FileSystem>> open_store(const std::string& store) {
  VARVE_ASSIGN(auto index, index::Index::open(store, index::IndexOptions()));
  fs::FileSystemOptions options;
  options.workers = 1;
  return fs::FileSystem::create(std::move(index), options);
}

void write_file(fs::FileSystem& system, const std::string& name, bool stays_open) {
  const auto made = must(system.create(kCaller, index::kRootInode, name, 0644, O_RDWR));
  const Content& content = contents().at(name);
  static_cast<void>(must(system.write(kCaller, made.second.handle, 0, content)));
  if (const Status synced = system.fsync(kCaller, made.second.handle, false); !synced.ok()) {
    fail(synced.error());
  }
  if (!stays_open) {
    static_cast<void>(system.flush(kCaller, made.second.handle));
    system.release(made.second.handle);
  }
}

/// Sealed files, an orderly end, and staged ones that were synced when the daemon was killed.
[[noreturn]] void make_store(const std::string& store) {
  for (const bool second : {false, true}) {
    auto system = must(open_store(store));
    for (const char* name : second ? std::vector{"staged", "noted"} : std::vector{"array.npy", "plain", "small"}) {
      write_file(*system, name, second);
    }
    if (second) {
      ::kill(::getpid(), SIGKILL);
    }
    if (const Status ended = system->shut_down(); !ended.ok()) {
      fail(ended.error());
    }
  }
  std::abort();
}

/// 0: as it was; EIO: a part could not be read; else wrong.
enum class Seen { right, bad, wrong };
Seen read_file(fs::FileSystem& system, const std::string& name, const Content& content) {
  const auto entry = system.lookup(kCaller, index::kRootInode, name);
  if (!entry.ok()) {
    return entry.error().code == EIO ? Seen::bad : Seen::wrong;
  }
  const auto opened = system.open(kCaller, entry->attributes.inode, O_RDONLY);
  if (!opened.ok()) {
    return opened.error().code == EIO ? Seen::bad : Seen::wrong;
  }
  const auto attributes = system.get_attributes(kCaller, entry->attributes.inode);
  if (!attributes.ok() || attributes->size != content.size()) {
    return Seen::wrong;
  }
  Seen seen = Seen::right;
  for (uint64_t at = 0; at < content.size(); at += kPiece) {
    Content piece(std::min(kPiece, content.size() - at));
    const auto got = system.read(kCaller, opened->handle, at, piece);
    if (!got.ok() && got.error().code == EIO) {
      seen = Seen::bad;
    } else if (!got.ok() || *got != piece.size() || std::memcmp(piece.data(), content.data() + at, *got) != 0) {
      return Seen::wrong;
    }
  }
  return seen;
}

/// In a process of its own: opens the store, reads all of it, and ends with an Outcome.
[[noreturn]] void look(const std::string& store, const std::string& log) {
  ::alarm(kPatience);
  const int descriptor = ::open(log.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  ::dup2(descriptor, STDERR_FILENO);
  auto opened = open_store(store);
  if (!opened.ok()) {
    fmt::print(stderr, "refused: {}\n", opened.error().text);
    ::_exit(opened.error().text.empty() ? wrong : refused_store);
  }
  size_t bad = 0;
  for (const auto& [name, content] : contents()) {
    const Seen seen = read_file(**opened, name, content);
    if (seen == Seen::wrong) {
      fmt::print(stderr, "wrong: {}\n", name);
      ::_exit(wrong);
    }
    bad += seen == Seen::bad ? 1 : 0;
  }
  std::ifstream said(log);
  const std::string text((std::istreambuf_iterator<char>(said)), {});
  const bool copied = text.find("copy") != std::string::npos && bad == 0;
  ::_exit(bad > 1 ? wide : bad == 1 ? refused_range : copied ? corrected : whole);
}

template <typename Run>
int in_child(const Run& run) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    run();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

std::string kind_of(const std::string& path) {
  const std::string name = files::path(path).filename();
  if (path.starts_with("packs/")) {
    return "pack";
  }
  if (path.starts_with("staging/")) {
    return "staging";
  }
  return name.ends_with(".sst")            ? "table"
         : name.ends_with(".log")          ? "log"
         : name.starts_with("MANIFEST-")   ? "manifest"
         : name == "LOCK" || name == "LOG" ? ""
         : name.starts_with("OPTIONS-")    ? "options"
         : name.starts_with("LOG.old")     ? ""
                                           : name;
}

void flip(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int was = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(was ^ (1 << (at % 8))));
}

int run(const std::string& folder, uint64_t every, uint64_t first, const std::string& only) {
  const std::string made = folder + "/made";
  const std::string store = folder + "/store";
  const std::string log = folder + "/log";
  files::remove_all(folder);
  files::create_directories(folder);
  const int status = in_child([&] { make_store(made); });
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    fmt::print(stderr, "flip_store: no store was made\n");
    return 2;
  }
  std::map<std::string, std::array<uint64_t, kOutcomes>> table;
  std::map<std::string, uint64_t> sizes;
  bool good = true;
  for (const auto& entry : files::recursive_directory_iterator(made)) {
    const std::string path = files::relative(entry.path(), made);
    const std::string kind = entry.is_regular_file() ? kind_of(path) : "";
    if (kind.empty() || (!only.empty() && kind != only)) {
      continue;
    }
    const uint64_t size = entry.file_size();
    sizes[kind] += size;
    for (uint64_t at = first; at < size; at += every) {
      files::remove_all(store);
      files::copy(made, store, files::copy_options::recursive);
      flip(store + "/" + path, at);
      const int ended = in_child([&] { look(store, log); });
      const int outcome = WIFEXITED(ended) && WEXITSTATUS(ended) < kOutcomes ? WEXITSTATUS(ended) : died;
      ++table[kind][outcome];
      const bool narrow = kind == "pack" || kind == "staging";  // a byte there is of one file
      good = good && outcome != wrong && outcome != died && !(outcome == wide && narrow);
      if (outcome == wrong || outcome == died || (outcome == wide && narrow)) {
        std::ifstream said(log);
        std::string line, last;
        while (std::getline(said, line)) {
          last = line;
        }
        fmt::print("{} byte {} of {}: {}; {}\n", path, at, size, kNames[outcome], last);
      }
    }
  }
  fmt::print("| kind | bytes |");
  for (const char* name : kNames) {
    fmt::print(" {} |", name);
  }
  fmt::print("\n");
  for (const auto& [kind, counts] : table) {
    fmt::print("| {} | {} |", kind, sizes[kind]);
    for (const uint64_t count : counts) {
      fmt::print(" {} |", count);
    }
    fmt::print("\n");
  }
  files::remove_all(folder);
  return good ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc >= 2 && std::string_view(argv[1]) == "recognise-worker") {
    return fs::recogniser_worker_main(3);
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string only;
  if (words.size() >= 2 && words[words.size() - 2] == "--kind") {
    only = words.back();
    words.resize(words.size() - 2);
  }
  if (words.empty() || words.size() > 3) {
    fmt::print(stderr, "usage: flip_store FOLDER [EVERY [FIRST]] [--kind KIND]\n");
    return 2;
  }
  const uint64_t every = words.size() > 1 ? std::max(1ULL, std::strtoull(words[1].c_str(), nullptr, 10)) : 1;
  const uint64_t first = words.size() > 2 ? std::strtoull(words[2].c_str(), nullptr, 10) : 0;
  return run(files::absolute(words[0]), every, first, only);
}

}  // namespace
}  // namespace varve::crash

int main(int argc, char** argv) { return varve::crash::main(argc, argv); }
