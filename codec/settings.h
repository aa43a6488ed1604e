// What all tiles of an array share, and how it is stored.
#pragma once

#include <memory>

#include "codec/codec.h"
#include "codec/decimal.h"
#include "codec/entropy.h"
#include "codec/geometry.h"
#include "codec/kernels.h"
#include "codec/mapping.h"

namespace varve::codec {

/// How the records of an array are made where nothing forces another method. Stored on disk.
enum class Scheme : uint8_t {
  elements = 0,   ///< each record's elements, stored or shuffled and packed: no prediction
  residuals = 1,  ///< exact differences from predictions
  codes = 2,      ///< quantized differences from predictions
};

inline constexpr unsigned kSchedules = 2;
/// The quantum of a level over that of level 0: all alike, or coarser points, from which many others are predicted,
/// more precise.
constexpr double level_scale(unsigned schedule, unsigned level) {
  constexpr std::array<double, 5> kFiner = {1.0, 0.8, 0.64, 0.512, 0.5};
  return schedule == 0 ? 1.0 : kFiner[level < kFiner.size() ? level : kFiner.size() - 1];
}

/// Floats as multiples of a step: see lorenzo.h. Other elements have one of a few bit patterns, whose integers are the
/// least one plus their number.
struct Lorenzo {
  double step = 0;
  std::vector<uint64_t> escapes;  ///< at most kMostEscapes
};

/// Plain data; immutable once made.
struct Settings {
  DType dtype = DType::u8;
  std::optional<Decimal> decimal;  ///< the elements are floats, `dtype` their integers
  std::optional<Lorenzo> lorenzo;  ///< likewise, under a bound; Scheme::residuals without interpolation
  Bound bound;                     ///< as asked for
  double absolute_bound = 0;       ///< no element moves by more; 0: lossless
  Mapping mapping;                 ///< Scheme::codes only, as the next two
  double work_bound = 0;           ///< how far work values may move (see ResolvedBound)
  double quantum = 0;              ///< of level 0, before rounding to the work type
  bool bound_exceeds_range = false;
  std::string_view why;  ///< a bound was asked for and is not applied: see ResolvedBound; not stored
  double min = 0;
  double max = 0;
  Scheme scheme = Scheme::elements;
  Interpolation interpolation = Interpolation::cubic;  ///< quintic: Scheme::codes only
  std::optional<uint8_t> difference_axis;  ///< codes are coded as differences along it; not Scheme::elements
  uint8_t schedule = 0;                    ///< how the quantum depends on the level: see level_scale()
  uint8_t residual_base = 0;               ///< bit length of context 0; Scheme::residuals only
  std::vector<uint64_t> specials;          ///< bit patterns coded as kTokenSpecial; at most kMaxSpecials
  Geometry geometry;
  TableSet tables;  ///< empty for Scheme::elements

  /// Of the elements that callers see.
  DType element_type() const { return is_integers() ? floats_of(dtype) : dtype; }
  /// Whether floats are stored as integers.
  bool is_integers() const { return decimal.has_value() || lorenzo.has_value(); }
  /// What special points are in most arrays that have such.
  uint64_t first_special() const { return specials.empty() ? 0 : specials[0]; }
  void make_lossless(Scheme how) {
    if (quantum > 0 && why.empty()) {
      why = "that takes no more bytes than the bound would";
    }
    scheme = how;
    mapping = {};
    absolute_bound = work_bound = quantum = 0;
    interpolation = interpolation == Interpolation::quintic ? Interpolation::cubic : interpolation;
    difference_axis.reset();
  }
  /// Whether points are work values that stand for elements, else the elements themselves.
  bool is_mapped() const { return scheme == Scheme::codes && !is_identity(dtype, mapping); }
};

/// Calls f with a value of the type that points have under these settings.
template <typename F>
auto with_work_type(const Settings& settings, F&& f) {
  if (settings.is_mapped()) {
    return has_wide_work(settings.dtype, settings.mapping) ? f(double{}) : f(float{});
  }
  if (settings.lorenzo.has_value() && settings.dtype == DType::i32) {
    return f(int32_t{});
  }
  return with_work_type(settings.dtype, f);
}

inline constexpr size_t kMaxSpecials = 250;

Bytes write_header(const Settings& settings);
Result<Settings> read_header(std::span<const std::byte> header);

/// Finds the settings of an array. See ArrayCodec::plan.
Result<Settings> make_plan(const ArraySpec& spec, const ReadBox& read);

struct WorkErrors;  // view_error.h

struct WholeArray {
  Settings settings;
  std::vector<std::vector<Record>> tiles;
  std::vector<WorkErrors> errors;  ///< of each tile; empty: not asked for
};
/// Of at most kWholeElements elements. See ArrayCodec::encode_array. `measure`: asks for errors.
Result<WholeArray> encode_array(const ArraySpec& spec, const ReadBox& read, bool measure);

/// What encoding some tiles and bricks would emit, without tables.
struct Tally {
  Histogram histogram;
  uint64_t side_bits = 0;
  uint64_t points = 0;
  uint64_t nonzero = 0;        ///< points whose code is not 0
  bool count_changes = false;  ///< then encoding ends where some point changed
  uint64_t changed = 0;        ///< if asked for: points that do not decode to what they were
  size_t element_bytes = 0;    ///< of records of elements
  double bits() const { return histogram.bits() + static_cast<double>(side_bits); }
  /// Mean bit length of the codes.
  unsigned mean_code_bits() const;
};

/// `brick_step`: count one brick of so many of the tile (0: none), and the coarse points always.
void tally_tile(const Settings& settings, uint64_t tile, const std::byte* data, size_t brick_step, Tally& tally);
/// `errors`: null, or what is set to the errors of the tile's views.
Result<std::vector<Record>> encode_tile(const Settings& settings, uint64_t tile, const std::byte* data, bool exact,
                                        WorkErrors* errors = nullptr);
/// Bytes of the tile's records under Scheme::elements.
size_t elements_size(const Settings& settings, uint64_t tile, const std::byte* data);

Result<CoarseGrid> decode_coarse(const Settings& settings, uint64_t tile, std::span<const std::byte> record);
/// What decode_brick writes: the points of levels >= `last`, where those below `finest` are interpolated, to where
/// `part` lies in the elements of `into`. `part`: of last = 0 the brick's box, else any of as many elements as there
/// are points.
struct BrickTarget {
  uint8_t finest = 0;
  uint8_t last = 0;
  const Box& part;
  const Box& into;
};
Status decode_brick(const Settings& settings, uint64_t brick, std::span<const std::byte> coarse,
                    const std::array<std::optional<std::span<const std::byte>>, 3>& levels, const BrickTarget& target,
                    std::byte* out);

struct ArrayCodec::State {
  Settings settings;
};

}  // namespace varve::codec
