#include "fs/formats/recogniser.h"

#include <algorithm>
#include <array>

#include "fs/formats/check.h"
#include "fs/formats/formats.h"

namespace varve::fs {

namespace {

/// The first bytes of a file, read once for all tests.
struct Start {
  std::array<std::byte, 512> bytes{};
  size_t size = 0;

  explicit Start(FileView& file) {
    const auto got = file.read(0, bytes);
    size = got.ok() ? *got : 0;
  }
  std::span<const std::byte> filled() const { return std::span(bytes).first(size); }
};

}  // namespace

bool Candidate::has(size_t offset, std::string_view magic) const {
  return offset <= start.size() && magic.size() <= start.size() - offset &&
         std::equal(magic.begin(), magic.end(), start.begin() + static_cast<std::ptrdiff_t>(offset),
                    [](char a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

Result<std::optional<Recognised>> recognise(std::string_view name, FileView& file, const std::optional<RawHint>& hint) {
  const Start start(file);
  const Candidate candidate{name, start.filled(), file, hint};
  for (const Format& format : formats()) {
    if (!format.may_be(candidate)) {
      continue;
    }
    VARVE_ASSIGN(auto claimed, format.recognise(candidate));
    if (claimed) {
      claimed->format = format.name;
      VARVE_TRY(check_arrays(*claimed, file.size()));
      return claimed;
    }
  }
  return std::optional<Recognised>();
}

bool worth_recognising(std::string_view name, FileView& file, const std::optional<RawHint>& hint) {
  if (file.size() == 0) {
    return false;
  }
  const Start start(file);
  const Candidate candidate{name, start.filled(), file, hint};
  return std::any_of(formats().begin(), formats().end(),
                     [&](const Format& format) { return format.may_be(candidate); });
}

}  // namespace varve::fs
