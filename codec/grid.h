// The elements that an encoder works on, by level.
#pragma once

#include <vector>

#include "codec/bytes.h"
#include "codec/geometry.h"
#include "codec/kernels.h"

namespace varve::codec {

/// The elements of one level's grid in the work type.
template <typename W>
struct GridView {
  const W* at = nullptr;
  const size_t* item_offset = nullptr;
  ptrdiff_t slab = 0;
  ptrdiff_t row = 0;
  const W* end = nullptr;  ///< nothing at or after it may be read
};

/// A grid in memory of its own.
template <typename W>
class GridMemory {
 public:
  W* reserve(const Dims& dims) {
    const size_t item = dims.n[0] * dims.n[1] * dims.n[2];
    offsets_.resize(dims.batch);
    for (size_t i = 0; i < dims.batch; ++i) {
      offsets_[i] = i * item;
    }
    W* at = values_.reserve(dims.count() + kSlackBytes);
    view_ = {at, offsets_.data(), static_cast<ptrdiff_t>(dims.n[1] * dims.n[2]), static_cast<ptrdiff_t>(dims.n[2]),
             at + dims.count() + kSlackBytes};
    return at;
  }
  const GridView<W>& view() const { return view_; }

 private:
  Buffer<W> values_;
  std::vector<size_t> offsets_;
  GridView<W> view_;
};

}  // namespace varve::codec
