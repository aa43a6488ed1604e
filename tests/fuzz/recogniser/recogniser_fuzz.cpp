// What parses untrusted text and bytes inside the daemon, or in a worker without the HDF5 library. The first byte of an
// input says for whom the rest is.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fs/formats/check.h"
#include "fs/formats/chunk_filters.h"
#include "fs/formats/fits.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/netcdf3.h"
#include "fs/formats/pickle.h"
#include "fs/formats/raw.h"
#include "fs/formats/worker_protocol.h"
#include "fs/formats/zarr.h"
#include "fs/policy.h"

namespace varve::fs {
namespace {

/// An input that breaks a promise ends the program.
void must(bool holds, const char* promise) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", promise);
    std::abort();
  }
}

class SpanView : public FileView {
 public:
  explicit SpanView(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    if (offset >= bytes_.size()) {
      return size_t{0};
    }
    size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A file of any format but HDF5, whose library is not what is tested here.
void fuzz_file(std::span<const std::byte> bytes) {
  SpanView file(bytes);
  if (has_hdf5_signature(file)) {
    return;
  }
  auto result = recognise("file", file, std::nullopt);
  must(result.ok() || !result.error().text.empty(), "a refusal has a reason");
  if (result.ok() && *result) {
    must(check_arrays(**result, bytes.size()).ok(), "arrays are consistent");
    auto back = deserialise(serialise(**result));
    must(back.ok() && back->arrays == (*result)->arrays, "a result survives its serialisation");
  }
}

void fuzz_pickle(std::span<const std::byte> bytes) {
  for (const PickledStorage& storage : pickled_storages(bytes)) {
    must(checked_product(storage.shape) == storage.elements || storage.elements >> 62 != 0,
         "a tensor that is all of a storage has its elements");
  }
}

/// The metadata of an array, a line break, and its attributes.
void fuzz_zarr(std::string_view text) {
  const std::string metadata(text.substr(0, text.find('\n')));
  const std::string attributes(text.substr(std::min(text.size(), metadata.size() + 1)));
  for (const bool old : {true, false}) {
    const auto hint = zarr_hint({"t", old ? metadata : "", attributes, old ? "" : metadata}, 96);
    if (hint) {
      const std::array<std::byte, 96> bytes{};
      SpanView file(bytes);
      const auto found = recognise_raw("0.0", file, hint);
      must(found.ok() && *found && check_arrays(**found, bytes.size()).ok(), "a hint fits the chunk");
    }
  }
}

/// A name, a line break, and the file.
void fuzz_raw(std::string_view text) {
  std::string_view name = text.substr(0, text.find('\n'));
  std::string_view rest = text.substr(std::min(text.size(), name.size() + 1));
  SpanView file(std::as_bytes(std::span(rest)));
  auto result = recognise_raw(name, file, std::nullopt);
  must(result.ok(), "a name alone is never an error");
  must(!*result || check_arrays(**result, rest.size()).ok(), "raw arrays are consistent");
}

void fuzz_deserialise(std::span<const std::byte> bytes) {
  auto result = deserialise(bytes);
  if (!result.ok()) {
    must(result.error().code == EBADMSG, "a bad answer is EBADMSG");
    return;
  }
  for (const ArrayRegion& array : result->arrays) {
    must(check_array(array).ok(), "deserialised arrays are consistent");
  }
  auto again = serialise(*result);
  must(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "one result has one form");
}

void fuzz_policy(std::string_view text) {
  auto policy = Policy::parse(text);
  if (!policy.ok()) {
    must(policy.error().code == EINVAL && !policy.error().text.empty(), "a refusal has a reason");
    return;
  }
  FilePolicy file = policy->for_file("a/b.h5", codec::Bound{codec::BoundMode::relative, 0.5});
  auto back = FilePolicy::parse(file.serialise());
  must(back.ok() && back->serialise() == file.serialise(), "a file policy survives its text");
}

void fuzz_file_policy(std::string_view text) {
  auto policy = FilePolicy::parse(text);
  if (policy.ok()) {
    auto back = FilePolicy::parse(policy->serialise());
    must(back.ok() && back->serialise() == policy->serialise(), "a file policy survives its text");
  }
}

/// A pattern, a line break, and a text.
void fuzz_glob(std::string_view text) {
  std::string_view pattern = text.substr(0, text.find('\n'));
  std::string_view rest = text.substr(std::min(text.size(), pattern.size() + 1));
  bool valid = check_glob(pattern).ok();
  bool matches = glob_match(pattern, rest);
  must(valid || !matches, "a bad pattern matches nothing");
  must(!valid || glob_match(std::string(pattern) + "**", std::string(rest)) || !matches,
       "two more stars match no less");
}

void fuzz_protocol(std::span<const std::byte> bytes) {
  auto request = decode_request(bytes);
  if (request.ok()) {
    auto again = encode(*request);
    must(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "one request has one form");
  }
  auto range = decode_range(bytes);
  must(!range.ok() || range->length <= kLongestRead, "ranges are limited");
  must(decode_error(bytes).code > 0, "an error has a code");
}

/// A good image is one that a daemon takes from a worker.
void check_image(Result<FileImage> image, uint64_t file_size) {
  if (image.ok() && image->finish(file_size).ok()) {
    auto back = deserialise_image(serialise(*image), file_size);
    must(back.ok() && *back == *image, "an image survives its serialisation");
  }
}

void fuzz_coarse(std::span<const std::byte> bytes) {
  SpanView file(bytes);
  if (has_netcdf3_magic(file)) {
    check_image(netcdf3_coarse(file, 2), bytes.size());
  }
  if (has_fits_magic(file)) {
    check_image(fits_coarse(file, 2), bytes.size());
  }
}

void fuzz_image(std::span<const std::byte> bytes) {
  auto image = deserialise_image(bytes, 1000);
  must(image.ok() || image.error().code == EBADMSG, "a bad image is EBADMSG");
}

void fuzz_region(std::string_view text) {
  auto spec = RegionSpec::parse(text);
  must(spec.ok() || spec.error().code == EINVAL, "a bad SPEC is EINVAL");
  for (const codec::Extents& shape : {codec::Extents{}, {7}, {0, 3}, {5, 6, 7}}) {
    auto part = spec.ok() ? spec->apply(shape) : Error{ENOENT, ""};
    for (size_t axis = 0; part.ok() && axis < shape.size(); ++axis) {
      const SliceAxis& of = part->axes[axis];
      const auto last = static_cast<int64_t>(of.start) + of.step * (static_cast<int64_t>(of.count) - 1);
      must(of.count == 0 || (of.start < shape[axis] && last >= 0 && last < static_cast<int64_t>(shape[axis])),
           "a part lies in its array");
    }
  }
}

/// How many filters, kind and parameter of each, a mask, bytes of the elements (two bytes), and a chunk of a file.
void fuzz_filters(std::span<const std::byte> bytes) {
  const auto take = [&] {
    const auto first = bytes.empty() ? 0U : std::to_integer<uint32_t>(bytes[0]);
    bytes = bytes.empty() ? bytes : bytes.subspan(1);
    return first;
  };
  ArrayRegion region;
  for (uint32_t left = take() % 5; left > 0; --left) {
    const auto kind = static_cast<ChunkFilter::Kind>(take() % 3);
    region.filters.push_back({kind, kind == ChunkFilter::Kind::deflate ? take() % 10 : 1 + take()});
  }
  region.shape = region.chunk_shape = {1};
  if (!check_array(region).ok()) {
    return;
  }
  const uint32_t skipped = take();
  const uint64_t size = take() | take() << 8U;
  const auto elements = undo_filters(region, skipped, {bytes.begin(), bytes.end()}, size);
  must(elements.ok() ? elements->size() == size : elements.error().code == EBADMSG, "elements, or EBADMSG");
  codec::Bytes given = elements.ok() ? *elements : codec::Bytes(bytes.begin(), bytes.end());
  const auto stored = redo_filters(region, skipped, given);
  if (stored.ok()) {
    const auto back = undo_filters(region, skipped, *stored, given.size());
    must(back.ok() && *back == given, "filters redone can be undone");
  } else {
    must(stored.error().code == EBADMSG, "a chunk, or EBADMSG");
  }
}

}  // namespace
}  // namespace varve::fs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace varve::fs;
  if (size == 0) {
    return 0;
  }
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'n':
      fuzz_file(bytes);
      break;
    case 'k':
      fuzz_pickle(bytes);
      break;
    case 'z':
      fuzz_zarr(text);
      break;
    case 'r':
      fuzz_raw(text);
      break;
    case 'd':
      fuzz_deserialise(bytes);
      break;
    case 'p':
      fuzz_policy(text);
      break;
    case 'f':
      fuzz_file_policy(text);
      break;
    case 'g':
      fuzz_glob(text);
      break;
    case 'w':
      fuzz_protocol(bytes);
      break;
    case 'c':
      fuzz_coarse(bytes);
      break;
    case 'i':
      fuzz_image(bytes);
      break;
    case 'u':
      fuzz_filters(bytes);
      break;
    case 's':
      fuzz_region(text);
      break;
    default:
      break;
  }
  return 0;
}
