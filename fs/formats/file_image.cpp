#include "fs/formats/file_image.h"

#include <fmt/format.h>

#include <algorithm>

#include "fs/formats/check.h"
#include "fs/formats/serialise.h"

namespace varve::fs {

namespace {

constexpr uint64_t kMagic = 0x3147'4D49'5652'4156;  // "VARVIMG1"
constexpr uint64_t kLargestImage = uint64_t{1} << 60;

Error bad(std::string_view what) { return Error{EBADMSG, fmt::format("the image of the file {}", what)}; }

/// Whether the axis names elements that exist, of which there is one at least.
bool lies_within(const SliceAxis& axis, uint64_t extent) {
  if (axis.count == 0 || axis.step == 0 || axis.start >= extent) {
    return false;
  }
  const uint64_t stride = axis.step < 0 ? -static_cast<uint64_t>(axis.step) : static_cast<uint64_t>(axis.step);
  const uint64_t room = axis.step < 0 ? axis.start : extent - 1 - axis.start;
  return axis.count - 1 <= room / stride;
}

std::optional<uint64_t> slice_bytes(const ArrayRegion& region, const std::vector<SliceAxis>& axes) {
  codec::Extents counts;
  for (const SliceAxis& axis : axes) {
    counts.push_back(axis.count);
  }
  counts.push_back(codec::element_size(region.dtype));
  return checked_product(counts);
}

Status check_source(const ImageSource& source, uint64_t file_size) {
  const ArrayRegion& region = source.region;
  VARVE_TRY(check_array(region));
  if (!source.fill.empty() && source.fill.size() != codec::element_size(region.dtype)) {
    return bad("has a fill value of another size than its elements");
  }
  for (const ChunkPlace& place : region.chunks) {
    const uint64_t length = stored_bytes(region, place);
    if (length > file_size || place.offset > file_size - length) {
      return bad(fmt::format("has elements past the end of the file ({} bytes at offset {})", length, place.offset));
    }
  }
  return {};
}

}  // namespace

void FileImage::add_bytes(uint64_t offset, std::vector<std::byte> bytes) {
  if (!bytes.empty()) {
    const uint64_t length = bytes.size();
    parts.push_back({offset, length, std::move(bytes), 0, {}});
  }
}

void FileImage::add_slice(uint64_t offset, uint32_t source, std::vector<SliceAxis> axes) {
  const uint64_t length = slice_bytes(sources.at(source).region, axes).value_or(0);
  if (length > 0) {
    parts.push_back({offset, length, {}, source, std::move(axes)});
  }
}

Status FileImage::finish(uint64_t file_size) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const ImagePart& a, const ImagePart& b) { return a.offset < b.offset; });
  if (size > kLargestImage) {
    return bad("is larger than any file can be");
  }
  for (const ImageSource& source : sources) {
    VARVE_TRY(check_source(source, file_size));
  }
  uint64_t end = 0;
  for (const ImagePart& part : parts) {
    if (part.offset < end || part.length == 0 || part.length > size || part.offset > size - part.length) {
      return bad(fmt::format("has parts that overlap or are past its end, at offset {}", part.offset));
    }
    end = part.offset + part.length;
    if (!part.bytes.empty()) {
      if (part.bytes.size() != part.length) {
        return bad("has a literal part of another length than it says");
      }
      continue;
    }
    if (part.source >= sources.size() || part.axes.size() != sources[part.source].region.shape.size()) {
      return bad("has a slice of no array, or of another rank");
    }
    const ArrayRegion& region = sources[part.source].region;
    for (size_t axis = 0; axis < part.axes.size(); ++axis) {
      if (!lies_within(part.axes[axis], region.shape[axis])) {
        return bad(fmt::format("has a slice that leaves its array along axis {}", axis));
      }
    }
    if (slice_bytes(region, part.axes) != part.length) {
      return bad("has a slice of another length than it says");
    }
  }
  return {};
}

std::vector<std::byte> serialise(const FileImage& image) {
  SerialWriter out;
  out.number(kMagic);
  out.number(image.size);
  const auto bytes = [&](const std::vector<std::byte>& data) {
    out.text({reinterpret_cast<const char*>(data.data()), data.size()});
  };
  out.number(image.sources.size());
  for (const ImageSource& source : image.sources) {
    write_array(out, source.region);
    bytes(source.fill);
  }
  out.number(image.parts.size());
  for (const ImagePart& part : image.parts) {
    out.number(part.offset);
    out.number(part.length);
    bytes(part.bytes);
    out.number(part.source);
    out.number(part.axes.size());
    for (const SliceAxis& axis : part.axes) {
      out.number(axis.start);
      out.number(static_cast<uint64_t>(axis.step));
      out.number(axis.count);
    }
  }
  return out.take();
}

Result<FileImage> deserialise_image(std::span<const std::byte> bytes, uint64_t file_size) {
  SerialReader in(bytes);
  if (in.number() != kMagic) {
    return Error{EBADMSG, "the recogniser's image does not start as it must"};
  }
  const auto data = [&] {
    const std::string text = in.text();
    const auto view = std::as_bytes(std::span(text));
    return std::vector<std::byte>(view.begin(), view.end());
  };
  FileImage image;
  image.size = in.number();
  const uint64_t sources = in.count(kSmallestArray + 1);
  for (uint64_t i = 0; i < sources && !in.failed(); ++i) {
    ImageSource& source = image.sources.emplace_back();
    source.region = read_array(in);
    source.fill = data();
  }
  constexpr size_t kSmallestPart = 5;
  const uint64_t parts = in.count(kSmallestPart);
  for (uint64_t i = 0; i < parts && !in.failed(); ++i) {
    ImagePart& part = image.parts.emplace_back();
    part.offset = in.number();
    part.length = in.number();
    part.bytes = data();
    part.source = static_cast<uint32_t>(std::min<uint64_t>(in.number(), UINT32_MAX));
    part.axes.resize(in.count(3));
    for (SliceAxis& axis : part.axes) {
      axis.start = in.number();
      axis.step = static_cast<int64_t>(in.number());
      axis.count = in.number();
    }
  }
  if (in.failed() || !in.at_end()) {
    return Error{EBADMSG, fmt::format("the recogniser's image of {} bytes is cut short or too long", bytes.size())};
  }
  VARVE_TRY(image.finish(file_size));
  return image;
}

}  // namespace varve::fs
