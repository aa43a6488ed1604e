#include "fs/formats/npz.h"

#include <fmt/format.h>

#include "fs/formats/npy.h"
#include "fs/formats/zip.h"

namespace varve::fs {

namespace {

constexpr std::string_view kSuffix = ".npy";

/// A part of a file as a file.
class PartView : public FileView {
 public:
  PartView(FileView& whole, uint64_t begin, uint64_t size) : whole_(whole), begin_(begin), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    if (offset >= size_) {
      return size_t{0};
    }
    return whole_.read(begin_ + offset, out.first(std::min<uint64_t>(out.size(), size_ - offset)));
  }

 private:
  FileView& whole_;
  uint64_t begin_, size_;
};

/// Nothing: not made of numbers, or no .npy file.
Result<std::optional<ArrayRegion>> array_of(FileView& file, const ZipMember& member) {
  VARVE_ASSIGN(const uint64_t begin, zip_data_offset(file, member));
  PartView part(file, begin, member.size);
  const auto header = read_npy_header(part);
  if (!header.ok() || !*header) {
    return std::optional<ArrayRegion>();
  }
  auto array = npy_array(**header, member.size);
  if (!array.ok() || !*array) {
    return std::optional<ArrayRegion>();
  }
  ArrayRegion region = std::move((*array)->region);
  region.name = fmt::format("/{}", std::string_view(member.name).substr(0, member.name.size() - kSuffix.size()));
  region.chunks[0].offset += begin;
  region.keep_exact = "checksummed";
  return std::optional(std::move(region));
}

}  // namespace

bool may_be_npz(const Candidate& candidate) { return first_zip_member(candidate).ends_with(kSuffix); }

Result<std::optional<Recognised>> recognise_npz(FileView& file) {
  VARVE_ASSIGN(const auto members, read_zip_directory(file));
  Recognised result;
  for (const ZipMember& member : members) {
    if (!member.stored || !member.name.ends_with(kSuffix)) {
      continue;
    }
    VARVE_ASSIGN(auto array, array_of(file, member));
    if (array) {
      result.arrays.push_back(std::move(*array));
    }
  }
  return std::optional(std::move(result));
}

}  // namespace varve::fs
