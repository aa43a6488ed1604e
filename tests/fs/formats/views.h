// Files for tests: in memory and on disk; and where the real ones lie.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fs/formats/recogniser.h"

namespace varve::fs {

class MemoryView : public FileView {
 public:
  explicit MemoryView(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  explicit MemoryView(std::string_view text) {
    auto raw = std::as_bytes(std::span(text));
    bytes_.assign(raw.begin(), raw.end());
  }
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    if (offset >= bytes_.size()) {
      return size_t{0};
    }
    size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  size_t reads = 0;

 private:
  std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

/// A fresh folder that goes with its owner.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "varve-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The files of the named folders of VARVE_TEST_DATA; empty when the variable is not set.
inline std::vector<std::string> real_files(std::initializer_list<const char*> folders) {
  std::vector<std::string> files;
  const char* root = std::getenv("VARVE_TEST_DATA");
  if (root == nullptr) {
    return files;
  }
  for (const char* folder : folders) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(root) + "/" + folder, ignored)) {
      if (entry.is_regular_file()) {
        files.push_back(entry.path().string());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace varve::fs
