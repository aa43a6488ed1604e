#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "fs/formats/fits.h"
#include "fs/formats/fits_units.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

/// The card with another value; its comment stays as far as there is room.
std::string card_with(std::string_view card, std::string_view value) {
  std::string out = fmt::format("{:<8}= {:>20}", card.substr(0, 8), value);
  const size_t comment = card.find('/', 10);
  if (comment != std::string_view::npos) {
    out += fmt::format(" {}", card.substr(comment));
  }
  out.resize(kFitsCard, ' ');
  return out;
}

std::string real_text(double value) {
  std::string text = fmt::format("{:.17G}", value);
  return text.find_first_of(".EN") == std::string::npos ? text + ".0" : text;
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
  if (error != std::errc{} || out.first > kFitsMostAxes) {
    return std::nullopt;
  }
  if (at != end && *at == '_') {
    const auto second = std::from_chars(at + 1, end, out.second);
    if (second.ec != std::errc{} || out.second > kFitsMostAxes) {
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
void add_defaults(FitsUnit& unit, const std::vector<uint64_t>& steps, const std::string& suffix) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(unit.cards.begin(), unit.cards.end(), [&](const std::string& card) {
      const std::string keyword = fits_keyword(card);
      const auto key = indexed(keyword);
      const bool alternate = !keyword.empty() && keyword.back() >= 'A' && keyword.back() <= 'Z';
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
      if (find_fits_card(unit, keyword) == nullptr && steps[axis - 1] > 1) {
        std::string card = fmt::format("{:<8}= {:>20}", keyword, value);
        card.resize(kFitsCard, ' ');
        unit.cards.push_back(std::move(card));
      }
    };
    add("CRPIX", "0.0");
    if (!matrix) {
      add("CDELT", "1.0");
    }
  }
}

void rewrite_cards(FitsUnit& unit, const std::vector<SliceAxis>& axes) {
  std::vector<uint64_t> steps;
  for (const SliceAxis& axis : axes) {
    steps.push_back(static_cast<uint64_t>(axis.step));
  }
  if (std::all_of(steps.begin(), steps.end(), [](uint64_t step) { return step == 1; })) {
    return;
  }
  std::erase_if(unit.cards, [](const std::string& card) {
    const std::string keyword = fits_keyword(card);
    return keyword == "CHECKSUM" || keyword == "DATASUM";
  });
  add_defaults(unit, steps, "");
  for (char letter = 'A'; letter <= 'Z'; ++letter) {
    add_defaults(unit, steps, std::string(1, letter));
  }
  for (std::string& card : unit.cards) {
    const auto key = indexed(fits_keyword(card));
    if (!key) {
      continue;
    }
    if (key->name == "NAXIS" && !key->pair && key->first >= 1 && key->first <= axes.size()) {
      card = card_with(card, std::to_string(axes[key->first - 1].count));
    } else if (const auto value = fits_real(card); value) {
      if (const auto now = rescaled(*key, *value, steps); now && *now != *value) {
        card = card_with(card, real_text(*now));
      }
    }
  }
}

std::vector<std::byte> header_bytes(const std::vector<std::string>& cards) {
  std::string text;
  for (const std::string& card : cards) {
    text += card;
  }
  text += "END";
  text.resize(fits_blocks(text.size()), ' ');
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

void add_image(FileImage& image, FitsUnit& unit, uint8_t shift) {
  std::vector<SliceAxis> axes;
  for (const uint64_t extent : unit.axes) {
    axes.push_back(thinned(extent, shift));
  }
  rewrite_cards(unit, axes);
  std::vector<std::byte> header = header_bytes(unit.cards);
  const uint64_t at = image.size + header.size();
  image.add_bytes(image.size, std::move(header));
  std::reverse(axes.begin(), axes.end());
  image.sources.push_back({fits_image_region(unit), {}});
  image.add_slice(at, static_cast<uint32_t>(image.sources.size() - 1), std::move(axes));
  image.size = at + fits_blocks(image.parts.back().length);
}

}  // namespace

Result<FileImage> fits_coarse(FileView& file, uint8_t shift) {
  FileImage image;
  VARVE_ASSIGN(const uint64_t end, visit_fits_units(file, [&](FitsUnit& unit) {
                 if (unit.image) {
                   add_image(image, unit, shift);
                 } else {
                   add_copy(image, unit.begin, unit.end - unit.begin);
                 }
               }));
  add_copy(image, end, file.size() - end);
  return image;
}

}  // namespace varve::fs
