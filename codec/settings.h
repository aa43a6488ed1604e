// What all tiles of an array share, and how it is stored.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/entropy.h"

namespace varve::codec {

/// How the records of an array are made where nothing forces another method. Stored on disk.
enum class Scheme : uint8_t {
  elements = 0,   ///< each record's elements, stored or shuffled and packed: no prediction
  residuals = 1,  ///< exact differences from predictions
  codes = 2,      ///< quantized differences from predictions
};

/// Plain data; immutable once made.
struct Settings {
  DType dtype = DType::u8;
  Bound bound;
  double absolute_bound = 0;  ///< 0: lossless
  double quantum = 0;         ///< of level 0, before rounding to the element's type; Scheme::codes only
  bool bound_exceeds_range = false;
  double min = 0;
  double max = 0;
  Scheme scheme = Scheme::elements;
  bool cubic = true;               ///< else linear
  uint8_t residual_base = 0;       ///< bit length of context 0; Scheme::residuals only
  std::vector<uint64_t> specials;  ///< bit patterns coded as kTokenSpecial; at most kMaxSpecials
  Geometry geometry;
  TableSet tables;      ///< empty for Scheme::elements
  ContextMap contexts;  ///< follows from scheme and residual_base

  void make_contexts() {
    contexts = scheme == Scheme::residuals ? ContextMap::for_residuals(residual_base) : ContextMap::for_codes();
  }
};

inline constexpr size_t kMaxSpecials = 250;

Bytes write_header(const Settings& settings);
Result<Settings> read_header(std::span<const std::byte> header);

/// Finds the settings of an array. See ArrayCodec::plan.
Result<Settings> make_plan(const ArraySpec& spec, const ReadBox& read);

/// What encoding some tiles and bricks would emit, without tables.
struct Tally {
  Histogram histogram;
  uint64_t side_bits = 0;
  uint64_t points = 0;
  uint64_t unchanged = 0;      ///< points that decode to what they were
  uint64_t residual_bits = 0;  ///< sum of the bit lengths of residuals
  double bits() const { return histogram.bits() + static_cast<double>(side_bits); }
  uint64_t zeros() const;  ///< points of code 0, special ones and escapes
};

/// `brick_step`: count one brick of so many of the tile (0: none), and the coarse points always.
void tally_tile(const Settings& settings, uint64_t tile, const std::byte* data, size_t brick_step, Tally& tally);
Result<std::vector<Record>> encode_tile(const Settings& settings, uint64_t tile, const std::byte* data, bool exact);
/// Bytes of the tile's records under Scheme::elements.
size_t elements_size(const Settings& settings, uint64_t tile, const std::byte* data);

Result<CoarseGrid> decode_coarse(const Settings& settings, uint64_t tile, std::span<const std::byte> record);
Status decode_brick(const Settings& settings, uint64_t brick, const CoarseGrid& coarse,
                    const std::array<std::optional<std::span<const std::byte>>, 3>& levels, uint8_t finest,
                    std::byte* out);

struct ArrayCodec::State {
  Settings settings;
};

}  // namespace varve::codec
