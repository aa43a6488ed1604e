#include "fs/formats/fits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "fs/formats/check.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

constexpr size_t kCard = 80;
constexpr uint64_t kBlock = 2880;
constexpr uint64_t kLongestHeader = uint64_t{16} << 20;
constexpr size_t kMostUnits = 100000;
constexpr size_t kMostAxes = 999;

Error malformed(std::string_view why) { return Error{EBADMSG, fmt::format("the FITS header cannot be read: {}", why)}; }

uint64_t whole_blocks(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

std::string_view trimmed(std::string_view text) {
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  return text;
}

std::string keyword_of(std::string_view card) { return std::string(trimmed(card.substr(0, 8))); }

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

std::optional<int64_t> integer_of(std::string_view card) {
  const std::string_view text = value_of(card);
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

/// FORTRAN's D exponents included.
std::optional<double> real_of(std::string_view card) {
  std::string text(value_of(card));
  std::replace(text.begin(), text.end(), 'D', 'E');
  const char* first = text.c_str() + (text.starts_with('+') ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(first, text.c_str() + text.size(), value);
  return error == std::errc{} && end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
}

/// The card with another value; its comment stays as far as there is room.
std::string card_with(std::string_view card, std::string_view value) {
  std::string out = fmt::format("{:<8}= {:>20}", card.substr(0, 8), value);
  const size_t comment = card.find('/', 10);
  if (comment != std::string_view::npos) {
    out += fmt::format(" {}", card.substr(comment));
  }
  out.resize(kCard, ' ');
  return out;
}

std::string real_text(double value) {
  std::string text = fmt::format("{:.17G}", value);
  return text.find_first_of(".EN") == std::string::npos ? text + ".0" : text;
}

/// Header and data unit.
struct Unit {
  std::vector<std::string> cards;  ///< END left out
  uint64_t begin = 0, data = 0;    ///< in the file
  uint64_t bytes = 0;              ///< of the data, without padding
  bool image = false;
  int64_t bits = 0;            ///< BITPIX
  std::vector<uint64_t> axes;  ///< NAXIS1 first, which is the fastest
};

const std::string* find_card(const Unit& unit, std::string_view keyword) {
  const auto found = std::find_if(unit.cards.begin(), unit.cards.end(),
                                  [&](const std::string& card) { return keyword_of(card) == keyword; });
  return found == unit.cards.end() ? nullptr : &*found;
}

int64_t integer_at(const Unit& unit, std::string_view keyword, int64_t otherwise) {
  const std::string* card = find_card(unit, keyword);
  return card == nullptr ? otherwise : integer_of(*card).value_or(otherwise);
}

/// Reads the cards from `at` on. False: there is no header any more.
Result<bool> read_cards(FileView& file, uint64_t at, Unit& unit) {
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
    for (size_t card = 0; card < kBlock; card += kCard) {
      if (trimmed(text.substr(card, kCard)) == "END") {
        unit.data = at + read + kBlock;
        return true;
      }
      unit.cards.emplace_back(text.substr(card, kCard));
    }
  }
  return malformed(fmt::format("it has no END within {} MiB", kLongestHeader >> 20));
}

Status measure(Unit& unit) {
  unit.bits = integer_at(unit, "BITPIX", 0);
  const int64_t axes = integer_at(unit, "NAXIS", -1);
  constexpr std::array<int64_t, 6> kBits{8, 16, 32, 64, -32, -64};
  if (axes < 0 || axes > static_cast<int64_t>(kMostAxes) ||
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
  const bool random_groups = !unit.axes.empty() && unit.axes[0] == 0 && find_card(unit, "GROUPS") != nullptr;
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
  const std::string* extension = find_card(unit, "XTENSION");
  unit.image = !random_groups && parameters == 0 && groups == 1 && *elements > 0 &&
               (extension == nullptr || value_of(*extension).starts_with("'IMAGE "));
  return {};
}

/// A keyword of world coordinates: letters, one or two numbers, and what follows (a letter of an alternate system).
struct Indexed {
  std::string name;
  unsigned first = 0, second = 0;  ///< 0: none
  bool pair = false;
};

std::optional<Indexed> indexed(const std::string& keyword) {
  Indexed out;
  const size_t digits = keyword.find_first_of("0123456789");
  if (digits == 0 || digits == std::string::npos) {
    return std::nullopt;
  }
  out.name = keyword.substr(0, digits);
  const bool terms = out.name.ends_with('_');  // SIP: A_1_2
  if (terms) {
    out.name.pop_back();
  }
  const char* const end = keyword.data() + keyword.size();
  auto [at, error] = std::from_chars(keyword.data() + digits, end, out.first);
  if (error != std::errc{} || out.first > kMostAxes) {
    return std::nullopt;
  }
  if (at != end && *at == '_') {
    const auto second = std::from_chars(at + 1, end, out.second);
    if (second.ec != std::errc{} || out.second > kMostAxes) {
      return std::nullopt;
    }
    out.pair = true;
    at = second.ptr;
  }
  const bool rest = at == end || (at + 1 == end && *at >= 'A' && *at <= 'Z');
  return rest && terms == (out.pair && (out.name == "A" || out.name == "B" || out.name == "AP" || out.name == "BP"))
             ? std::optional(out)
             : std::nullopt;
}

/// What a number of the world coordinates is in a thinned image. `steps`: of each axis, the fastest first. Pixel p of
/// the image is pixel (p - 1) * step + 1 of the original. Nothing: it stays.
std::optional<double> rescaled(const Indexed& key, double value, const std::vector<uint64_t>& steps) {
  const auto step = [&](unsigned axis) {
    return axis >= 1 && axis <= steps.size() ? static_cast<double>(steps[axis - 1]) : 1.0;
  };
  const double i = step(key.first);
  const double j = step(key.second);
  if (!key.pair) {
    if (key.name == "CRPIX" || key.name == "LTV") {
      return (value - 1) / i + 1;
    }
    return key.name == "CDELT" ? std::optional(value * i) : std::nullopt;
  }
  if (key.name == "CD") {
    return value * j;
  }
  if (key.name == "PC") {  // CDELT has the step of its own axis already
    return value * j / i;
  }
  if (key.name == "LTM") {
    return value / i;
  }
  if (key.name == "A" || key.name == "AP" || key.name == "B" || key.name == "BP") {
    const double scale = std::pow(step(1), key.first) * std::pow(step(2), key.second);
    return value * scale / (key.name.starts_with('A') ? step(1) : step(2));
  }
  return std::nullopt;
}

/// Adds the numbers that axes have by default in one system of world coordinates, so that they can be rescaled.
/// `suffix`: the letter of an alternate system, or nothing.
void add_defaults(Unit& unit, const std::vector<uint64_t>& steps, const std::string& suffix) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(unit.cards.begin(), unit.cards.end(), [&](const std::string& card) {
      const std::string keyword = keyword_of(card);
      const auto key = indexed(keyword);
      const bool alternate = keyword.back() >= 'A' && keyword.back() <= 'Z';
      return key && (alternate ? suffix == keyword.substr(keyword.size() - 1) : suffix.empty()) &&
             std::find(names.begin(), names.end(), key->name) != names.end();
    });
  };
  if (!any({"CRVAL", "CTYPE", "CRPIX", "CDELT", "CD", "PC"})) {
    return;
  }
  const bool matrix = any({"CD"});
  for (size_t axis = 1; axis <= steps.size(); ++axis) {
    const auto add = [&](const char* name, const char* value) {
      const std::string keyword = fmt::format("{}{}{}", name, axis, suffix);
      if (find_card(unit, keyword) == nullptr && steps[axis - 1] > 1) {
        std::string card = fmt::format("{:<8}= {:>20}", keyword, value);
        card.resize(kCard, ' ');
        unit.cards.push_back(std::move(card));
      }
    };
    add("CRPIX", "0.0");
    if (!matrix) {
      add("CDELT", "1.0");
    }
  }
}

void rewrite_cards(Unit& unit, const std::vector<SliceAxis>& axes) {
  std::vector<uint64_t> steps;
  for (const SliceAxis& axis : axes) {
    steps.push_back(static_cast<uint64_t>(axis.step));
  }
  if (std::all_of(steps.begin(), steps.end(), [](uint64_t step) { return step == 1; })) {
    return;
  }
  std::erase_if(unit.cards, [](const std::string& card) {
    const std::string keyword = keyword_of(card);
    return keyword == "CHECKSUM" || keyword == "DATASUM";
  });
  add_defaults(unit, steps, "");
  for (char letter = 'A'; letter <= 'Z'; ++letter) {
    add_defaults(unit, steps, std::string(1, letter));
  }
  for (std::string& card : unit.cards) {
    const auto key = indexed(keyword_of(card));
    if (!key) {
      continue;
    }
    if (key->name == "NAXIS" && !key->pair && key->first >= 1 && key->first <= axes.size()) {
      card = card_with(card, std::to_string(axes[key->first - 1].count));
    } else if (const auto value = real_of(card); value) {
      if (const auto now = rescaled(*key, *value, steps); now && *now != *value) {
        card = card_with(card, real_text(*now));
      }
    }
  }
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

std::vector<std::byte> header_bytes(const std::vector<std::string>& cards) {
  std::string text;
  for (const std::string& card : cards) {
    text += card;
  }
  text += "END";
  text.resize(whole_blocks(text.size()), ' ');
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void add_copy(FileImage& image, uint64_t begin, uint64_t length) {
  if (length == 0) {
    return;
  }
  ArrayRegion region;
  region.dtype = codec::DType::u8;
  region.shape = region.chunk_shape = {length};
  region.chunks = {{0, begin}};
  image.sources.push_back({std::move(region), {}});
  image.add_slice(image.size, static_cast<uint32_t>(image.sources.size() - 1), {{0, 1, length}});
  image.size += length;
}

void add_image(FileImage& image, Unit& unit, uint8_t shift) {
  std::vector<SliceAxis> axes;
  for (const uint64_t extent : unit.axes) {
    axes.push_back(thinned(extent, shift));
  }
  rewrite_cards(unit, axes);
  std::vector<std::byte> header = header_bytes(unit.cards);
  const uint64_t at = image.size + header.size();
  image.add_bytes(image.size, std::move(header));
  ArrayRegion region;
  region.dtype = dtype_of(unit.bits);
  region.big_endian = codec::element_size(region.dtype) > 1;
  region.shape.assign(unit.axes.rbegin(), unit.axes.rend());
  region.chunk_shape = region.shape;
  region.chunks = {{0, unit.data}};
  std::reverse(axes.begin(), axes.end());
  image.sources.push_back({std::move(region), {}});
  image.add_slice(at, static_cast<uint32_t>(image.sources.size() - 1), std::move(axes));
  image.size = at + whole_blocks(image.parts.back().length);
}

}  // namespace

bool has_fits_magic(FileView& file) {
  std::array<char, 30> start{};
  const auto got = file.read(0, std::as_writable_bytes(std::span(start)));
  return got.ok() && *got == start.size() && std::string_view(start.data(), 10) == "SIMPLE  = " && start[29] == 'T';
}

Result<FileImage> fits_coarse(FileView& file, uint8_t shift) {
  FileImage image;
  uint64_t at = 0;
  for (size_t number = 0; at < file.size() && number < kMostUnits; ++number) {
    Unit unit;
    VARVE_ASSIGN(const bool found, read_cards(file, at, unit));
    if (!found) {
      break;
    }
    VARVE_TRY(measure(unit));
    if (unit.bytes > file.size() - unit.data) {
      return malformed(fmt::format("its unit {} has {} bytes of data, more than the file", number, unit.bytes));
    }
    const uint64_t end = std::min(unit.data + whole_blocks(unit.bytes), file.size());
    if (unit.image && unit.axes.size() <= codec::kMaxRank) {
      add_image(image, unit, shift);
    } else {
      add_copy(image, unit.begin, end - unit.begin);
    }
    at = end;
  }
  add_copy(image, at, file.size() - at);
  return image;
}

}  // namespace varve::fs
