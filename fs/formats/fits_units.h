// FITS: the headers of a file's units (HDUs), and where their data lie.
// Method: FITS Standard 4.0, https://fits.gsfc.nasa.gov/fits_standard.html
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/formats/recogniser.h"

namespace varve::fs {

inline constexpr size_t kFitsCard = 80;       ///< bytes of one card
inline constexpr size_t kFitsMostAxes = 999;  ///< NAXIS999

/// Header and data unit.
struct FitsUnit {
  std::vector<std::string> cards;  ///< END left out
  uint64_t begin = 0, data = 0;    ///< in the file
  uint64_t bytes = 0;              ///< of the data, without padding
  uint64_t end = 0;                ///< behind the padding, or the end of the file
  bool image = false;              ///< an array and nothing else, of at most kMaxRank axes and not empty
  int64_t bits = 0;                ///< BITPIX
  std::vector<uint64_t> axes;      ///< NAXIS1 first, which is the fastest
};

/// Calls `visit` for one unit after another; the result is the offset behind the last one. EBADMSG: a header that does
/// not parse, or data longer than the file.
Result<uint64_t> visit_fits_units(FileView& file, const std::function<void(FitsUnit&)>& visit);

/// The bytes of a number of whole blocks.
uint64_t fits_blocks(uint64_t bytes);

/// The keyword, without spaces around it.
std::string fits_keyword(std::string_view card);

/// The card with a keyword; nullptr: there is none.
const std::string* find_fits_card(const FitsUnit& unit, std::string_view keyword);

/// A card's value; nothing: it is of another type, or the card has none. Reals include FORTRAN's D exponents; strings
/// lose the spaces at their end.
std::optional<int64_t> fits_integer(std::string_view card);
std::optional<double> fits_real(std::string_view card);
std::optional<std::string> fits_string(std::string_view card);

/// A unit's image, contiguous at its place; `name` and the rest are left alone.
ArrayRegion fits_image_region(const FitsUnit& unit);

}  // namespace varve::fs
