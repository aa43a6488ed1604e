// A slice of an array, as `varve web` sends it: two axes (or one, or none) at a stride, from one level, as numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/file_arrays.h"
#include "tools/web/array_tree.h"
#include "tools/web/http_server.h"

namespace varve::tools {

/// Points of an answer at most.
inline constexpr uint64_t kMostPoints = uint64_t{1} << 22;

/// An axis that is shown: elements start, start + step, ... below stop.
struct ShownAxis {
  size_t axis = 0;
  uint64_t start = 0, stop = 0, step = 1;
  uint64_t count() const { return (stop - start + step - 1) / step; }
};

struct SliceQuery {
  enum class Coding : uint8_t {
    f32,
    f64,
    u16  ///< 0 to 65532: from the least to the greatest finite value; then -infinity, infinity, missing
  };
  enum class Part : uint8_t { magnitude, phase, real, imaginary };  ///< of complex numbers

  std::vector<uint64_t> at;  ///< an index for each axis; of shown ones it means nothing
  std::optional<ShownAxis> rows, columns;
  uint8_t level = 0;
  Coding coding = Coding::f32;
  Part part = Part::magnitude;

  /// at=129,0,0  rows=AXIS:START:STOP:STEP  columns=...  level=0...3  type=f32|f64|u16  part=magnitude|phase|real|
  /// imaginary. EINVAL with a sentence.
  static Result<SliceQuery> parse(const HttpRequest& request);
  /// EINVAL: does not fit an array of this shape; EFBIG: more than kMostPoints.
  Status check(const codec::Extents& shape) const;
};

/// How NumPy would see an array of a file, and what its elements are.
struct ArrayFace {
  codec::Extents shape;
  bool complex = false;
  ElementDecoder elements;
};

/// `facts`: an array of the file's description (.varve/stat/). Reads no elements.
Result<ArrayFace> face_of(ArrayTree& tree, const Names& file, const nlohmann::json& facts);

struct Slice {
  uint64_t rows = 1, columns = 1;
  std::vector<double> values;  ///< C order; NaN: missing
};

/// ECANCELED: nobody wants it any more.
Result<Slice> read_slice(ArrayTree& tree, const Names& file, const nlohmann::json& facts, const ArrayFace& face,
                         const SliceQuery& query, const StillWanted& wanted);

/// The response: numbers, little-endian, and in its fields X-Varve-Rows, -Columns, -Level, -Missing, and of the finite
/// ones -Low and -High.
HttpResponse encode(const Slice& slice, const SliceQuery& query);

/// "a:b%[]" -> the dataset part of a SPEC of .varve/region/.
std::string region_name(std::string_view dataset);

}  // namespace varve::tools
