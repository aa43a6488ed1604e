#include "fs/formats/fits.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "fs/formats/fits_units.h"

namespace varve::fs {

namespace {

/// Why a bound on its elements would not be a bound on what readers see, or would falsify a checksum.
std::string_view reason(const FitsUnit& unit) {
  if (find_fits_card(unit, "CHECKSUM") != nullptr || find_fits_card(unit, "DATASUM") != nullptr) {
    return "checksummed";
  }
  const auto is = [&](std::string_view keyword, double otherwise) {
    const std::string* card = find_fits_card(unit, keyword);
    return card == nullptr || fits_real(*card) == otherwise;
  };
  return is("BSCALE", 1) && is("BZERO", 0) ? "" : "packed";
}

/// BLANK as elements have it; it means nothing for floats.
std::optional<uint64_t> blank(const FitsUnit& unit) {
  const std::string* card = find_fits_card(unit, "BLANK");
  const auto value = card == nullptr ? std::nullopt : fits_integer(*card);
  if (!value || unit.bits < 0) {
    return std::nullopt;
  }
  if (unit.bits == 64) {
    return static_cast<uint64_t>(*value);
  }
  const int64_t least = unit.bits == 8 ? 0 : -(int64_t{1} << (unit.bits - 1));
  const int64_t most = (int64_t{1} << (unit.bits == 8 ? 8 : unit.bits - 1)) - 1;
  if (*value < least || *value > most) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(*value) & ((uint64_t{1} << unit.bits) - 1);
}

/// "/SCI", "/SCI,2" of a further EXTVER, "/3" of the third extension where it has no name.
std::string name_of(const FitsUnit& unit, size_t number) {
  const std::string* card = find_fits_card(unit, "EXTNAME");
  const std::string name = card == nullptr ? "" : fits_string(*card).value_or("");
  if (name.empty()) {
    return number == 0 ? "/PRIMARY" : fmt::format("/{}", number);
  }
  const std::string* version = find_fits_card(unit, "EXTVER");
  const int64_t count = version == nullptr ? 1 : fits_integer(*version).value_or(1);
  return count == 1 ? "/" + name : fmt::format("/{},{}", name, count);
}

}  // namespace

bool has_fits_magic(FileView& file) {
  std::array<char, 30> start{};
  const auto got = file.read(0, std::as_writable_bytes(std::span(start)));
  return got.ok() && *got == start.size() && std::string_view(start.data(), 10) == "SIMPLE  = " && start[29] == 'T';
}

Result<std::optional<Recognised>> recognise_fits(FileView& file) {
  if (!has_fits_magic(file)) {
    return std::optional<Recognised>();
  }
  Recognised result;
  size_t number = 0;
  std::set<std::string> names;
  VARVE_TRY(visit_fits_units(file, [&](const FitsUnit& unit) {
    if (unit.image) {
      ArrayRegion array = fits_image_region(unit);
      array.name = name_of(unit, number);
      if (!names.insert(array.name).second) {
        array.name = fmt::format("/{}", number);
      }
      array.keep_exact = reason(unit);
      if (const auto missing = blank(unit)) {
        array.fill_values = {*missing};
      }
      result.arrays.push_back(std::move(array));
    }
    ++number;
  }));
  return std::optional(std::move(result));
}

}  // namespace varve::fs
