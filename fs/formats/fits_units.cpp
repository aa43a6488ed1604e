#include "fs/formats/fits_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr uint64_t kBlock = 2880;
constexpr uint64_t kLongestHeader = uint64_t{16} << 20;
constexpr size_t kMostUnits = 100000;

Error malformed(std::string_view why) { return Error{EBADMSG, fmt::format("the FITS header cannot be read: {}", why)}; }

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  return text;
}

/// The value field without its comment; empty: the card has none.
std::string_view value_of(std::string_view card) {
  if (card.substr(8, 2) != "= ") {
    return {};
  }
  std::string_view value = card.substr(10);
  if (trimmed(value).starts_with('\'')) {
    return trimmed(value);
  }
  return trimmed(value.substr(0, value.find('/')));
}

int64_t integer_at(const FitsUnit& unit, std::string_view keyword, int64_t otherwise) {
  const std::string* card = find_fits_card(unit, keyword);
  return card == nullptr ? otherwise : fits_integer(*card).value_or(otherwise);
}

/// Reads the cards from `at` on. False: there is no header any more.
Result<bool> read_cards(FileView& file, uint64_t at, FitsUnit& unit) {
  std::array<char, kBlock> block{};
  unit.begin = at;
  for (uint64_t read = 0; read < kLongestHeader; read += kBlock) {
    VARVE_ASSIGN(const size_t got, file.read(at + read, std::as_writable_bytes(std::span(block))));
    if (got < kBlock) {
      return read == 0 ? Result<bool>(false) : malformed("the file ends within it");
    }
    const std::string_view text(block.data(), block.size());
    if (read == 0 && at > 0 && !text.starts_with("XTENSION")) {
      return false;  // special records, or what somebody appended
    }
    for (size_t card = 0; card < kBlock; card += kFitsCard) {
      if (trimmed(text.substr(card, kFitsCard)) == "END") {
        unit.data = at + read + kBlock;
        return true;
      }
      unit.cards.emplace_back(text.substr(card, kFitsCard));
    }
  }
  return malformed(fmt::format("it has no END within {} MiB", kLongestHeader >> 20));
}

Status measure(FitsUnit& unit) {
  unit.bits = integer_at(unit, "BITPIX", 0);
  const int64_t axes = integer_at(unit, "NAXIS", -1);
  constexpr std::array<int64_t, 6> kBits{8, 16, 32, 64, -32, -64};
  if (axes < 0 || axes > static_cast<int64_t>(kFitsMostAxes) ||
      std::find(kBits.begin(), kBits.end(), unit.bits) == kBits.end()) {
    return malformed("BITPIX or NAXIS is missing or has a value that there is not");
  }
  for (int64_t axis = 1; axis <= axes; ++axis) {
    const int64_t extent = integer_at(unit, fmt::format("NAXIS{}", axis), -1);
    if (extent < 0) {
      return malformed(fmt::format("NAXIS{} is missing", axis));
    }
    unit.axes.push_back(static_cast<uint64_t>(extent));
  }
  const int64_t parameters = integer_at(unit, "PCOUNT", 0);
  const int64_t groups = integer_at(unit, "GCOUNT", 1);
  const bool random_groups = !unit.axes.empty() && unit.axes[0] == 0 && find_fits_card(unit, "GROUPS") != nullptr;
  codec::Extents extents(unit.axes.begin() + (random_groups ? 1 : 0), unit.axes.end());
  const auto elements = extents.empty() ? std::optional<uint64_t>(0) : checked_product(extents);
  if (!elements || parameters < 0 || groups < 0) {
    return malformed("its data are larger than any file can be");
  }
  const auto all = checked_product({*elements + static_cast<uint64_t>(parameters), static_cast<uint64_t>(groups),
                                    static_cast<uint64_t>(std::abs(unit.bits)) / 8});
  if (!all) {
    return malformed("its data are larger than any file can be");
  }
  unit.bytes = *all;
  const std::string* extension = find_fits_card(unit, "XTENSION");
  unit.image = !random_groups && parameters == 0 && groups == 1 && *elements > 0 &&
               unit.axes.size() <= codec::kMaxRank &&
               (extension == nullptr || fits_string(*extension).value_or("") == "IMAGE");
  return {};
}

codec::DType dtype_of(int64_t bits) {
  using codec::DType;
  switch (bits) {
    case 8:
      return DType::u8;
    case 16:
      return DType::i16;
    case 32:
      return DType::i32;
    case 64:
      return DType::i64;
    default:
      return bits == -32 ? DType::f32 : DType::f64;
  }
}

}  // namespace

uint64_t fits_blocks(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

std::string fits_keyword(std::string_view card) { return std::string(trimmed(card.substr(0, 8))); }

const std::string* find_fits_card(const FitsUnit& unit, std::string_view keyword) {
  const auto found = std::find_if(unit.cards.begin(), unit.cards.end(),
                                  [&](std::string_view card) { return trimmed(card.substr(0, 8)) == keyword; });
  return found == unit.cards.end() ? nullptr : &*found;
}

std::optional<int64_t> fits_integer(std::string_view card) {
  const std::string_view text = value_of(card);
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> fits_real(std::string_view card) {
  std::string text(value_of(card));
  std::replace(text.begin(), text.end(), 'D', 'E');
  const char* first = text.c_str() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(first, text.c_str() + text.size(), value);
  return error == std::errc{} && end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<std::string> fits_string(std::string_view card) {
  const std::string_view quoted = value_of(card);
  if (!quoted.starts_with('\'')) {
    return std::nullopt;
  }
  std::string text;
  for (size_t at = 1; at < quoted.size(); ++at) {
    if (quoted[at] == '\'') {
      if (quoted.substr(at + 1, 1) != "'") {  // two of them stand for one
        break;
      }
      ++at;
    }
    text.push_back(quoted[at]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

ArrayRegion fits_image_region(const FitsUnit& unit) {
  ArrayRegion region;
  region.dtype = dtype_of(unit.bits);
  region.big_endian = codec::element_size(region.dtype) > 1;
  region.shape.assign(unit.axes.rbegin(), unit.axes.rend());
  region.chunk_shape = region.shape;
  region.chunks = {{0, unit.data}};
  return region;
}

Result<uint64_t> visit_fits_units(FileView& file, const std::function<void(FitsUnit&)>& visit) {
  uint64_t at = 0;
  for (size_t number = 0; at < file.size() && number < kMostUnits; ++number) {
    FitsUnit unit;
    VARVE_ASSIGN(const bool found, read_cards(file, at, unit));
    if (!found) {
      break;
    }
    VARVE_TRY(measure(unit));
    if (unit.bytes > file.size() - unit.data) {
      return malformed(fmt::format("its unit {} has {} bytes of data, more than the file", number, unit.bytes));
    }
    unit.end = std::min(unit.data + fits_blocks(unit.bytes), file.size());
    visit(unit);
    at = unit.end;
  }
  return at;
}

}  // namespace varve::fs
