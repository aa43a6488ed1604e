// recognise_files FILE...: what is recognised in each, and how long it took.
#include <fmt/format.h>

#include <chrono>

#include "views.h"

namespace varve::fs {
namespace {

void list(const std::string& path) {
  MemoryView file(read_whole(path));
  std::string name = std::filesystem::path(path).filename().string();
  bool worth = worth_recognising(name, file, std::nullopt);
  file.reads = 0;
  auto start = std::chrono::steady_clock::now();
  auto result = recognise(name, file, std::nullopt);
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!result.ok()) {
    fmt::print("{}: {} ({:.2f} ms)\n", name, result.error().text, ms);
    return;
  }
  if (!*result) {
    fmt::print("{}: nothing{} ({:.2f} ms)\n", name, worth ? ", though it looked worth a try" : "", ms);
    return;
  }
  fmt::print("{}: {}, {} arrays ({:.2f} ms, {} reads)\n", name, (*result)->format, (*result)->arrays.size(), ms,
             file.reads);
  for (const ArrayRegion& array : (*result)->arrays) {
    fmt::print("  {} {}{} [{}] chunks [{}] x{} fill {} {}\n", array.name, codec::name_of(array.dtype),
               array.big_endian ? " big-endian" : "", fmt::join(array.shape, ","), fmt::join(array.chunk_shape, ","),
               array.chunks.size(), array.fill_values.size(), array.keep_exact);
  }
}

}  // namespace
}  // namespace varve::fs

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    varve::fs::list(argv[i]);
  }
}
