// What kernels are told, made from an array's settings and records; on the host. A Device is where kernels run: CUDA's
// (plugin.cu) or the emulator's (tests/codec/cuda/emulated.h). It has
//   Buffer<T> make<T>(count, name), upload(vector, name)    memory, with get() and download(to, count)
//   void launch(kernel, blocks, job)                        returns when the kernel has ended
//   unsigned blocks(work)                                   how many blocks to use for so many pieces of work
//   std::string name(), void use()                          use: before what a thread does with it
// and throws DeviceError.
#pragma once

#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include "codec/coding.h"
#include "codec/cuda/jobs.h"
#include "codec/cuda/support.h"
#include "codec/difference.h"

namespace varve::codec::cuda {

/// Memory that is not there, a launch that failed: the work can be done on the CPU instead.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline GridShape grid_shape(const Dims& dims) {
  GridShape out{};
  out.batch = static_cast<uint32_t>(dims.batch);
  for (unsigned axis = 0; axis < 3; ++axis) {
    out.n[axis] = static_cast<uint32_t>(dims.n.at(axis));
  }
  return out;
}

/// Points of the largest class of a grid, or its anchors, rounded up to groups.
inline size_t largest_class(const Dims& grid) {
  size_t most = grid.batch;
  for (const uint8_t c : kClassOrder) {
    most = std::max(most, class_dims(grid, c).count());
  }
  return (most + kGroup - 1) / kGroup * kGroup;
}

/// An array's terms in the device's memory.
template <typename W, typename Device>
class DeviceTerms {
 public:
  /// `strides`: of the array that elements lie in.
  DeviceTerms(Device& device, const Settings& settings, uint8_t finest)
      : specials_(device.upload(special_bits(settings), "the special values")),
        table_of_(device.upload(settings.tables.table_numbers(), "the tables of contexts")),
        decode_(device.upload(settings.tables.decode_entries(), "the decoder's tables")),
        encode_(device.upload(settings.tables.encode_entries(), "the encoder's tables")) {
    ArrayTerms<W>& out = terms_;
    for (unsigned level = 0; level < kQuanta; ++level) {
      out.quantum[level] = quantum_of<W>(settings, level);
      out.reciprocal[level] = W(1) / out.quantum[level];
    }
    out.bound = bound_below<W>(settings.work_bound);
    out.interpolation = settings.interpolation;
    out.coarse_shift = static_cast<uint8_t>(settings.geometry.coarse_shift);
    out.finest = finest;
    for (unsigned k = 0; k < kMaxActivity; ++k) {
      out.activity_thresholds[k] = kCodeThresholds.at(k);
    }
    for (unsigned k = 0; k + 1 < kPlainContexts; ++k) {
      out.sum_thresholds[k] = kSumThresholds.at(k);
    }
    out.table_of = table_of_.get();
    out.decode = decode_.get();
    out.encode = encode_.get();
    out.special_count = static_cast<uint32_t>(settings.specials.size());
    out.specials = specials_.get();
    out.difference_axis = kNoAxis;
    if (settings.difference_axis.has_value()) {
      const auto axis = settings.geometry.grid_axis(*settings.difference_axis);
      out.difference_axis = axis.has_value() ? static_cast<unsigned>(*axis) : kBatchAxis;
    }
  }
  ArrayTerms<W>& terms() { return terms_; }

 private:
  using Bits = BitsOf<W>;
  static std::vector<Bits> special_bits(const Settings& settings) {
    std::vector<Bits> out(settings.specials.size());
    std::transform(settings.specials.begin(), settings.specials.end(), out.begin(),
                   [](uint64_t bits) { return static_cast<Bits>(bits); });
    return out;
  }
  ArrayTerms<W> terms_{};
  typename Device::template Buffer<Bits> specials_;
  typename Device::template Buffer<uint8_t> table_of_;
  typename Device::template Buffer<uint32_t> decode_;
  typename Device::template Buffer<uint32_t> encode_;
};

/// The places of tiles' and bricks' elements within a box of the array.
class PlaceList {
 public:
  PlaceList(const Settings& settings, const Box& into) : settings_(settings), into_(into) {}

  /// All but the records of a job.
  BoxJob job_of(const Box& box) {
    const Geometry& geometry = settings_.geometry;
    const Layout layout = geometry.layout(box, into_);
    const auto [found, fresh] = begins_.emplace(box.shape, offsets_.size());
    const uint64_t base = layout.batch_offset.at(0);
    if (fresh) {  // the same for all boxes of one shape
      for (const size_t offset : layout.batch_offset) {
        offsets_.push_back(offset - base);
      }
    }
    stride_ = layout.stride;
    BoxJob out{};
    out.grid = grid_shape(layout.dims);
    out.base = base;
    out.item_offset = found->second;
    const CodeSteps steps = DifferenceAxis(settings_, box).steps({1, {1, 1, 1}});
    out.difference_extent = static_cast<uint32_t>(steps.extent);
    out.items_between = static_cast<uint32_t>(steps.step);
    for (unsigned level = 0; level < 3; ++level) {
      out.record[level] = kNoRecord;
    }
    return out;
  }
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  const std::array<size_t, 3>& stride() const { return stride_; }

 private:
  const Settings& settings_;
  const Box& into_;
  std::map<Extents, uint64_t> begins_;
  std::vector<uint64_t> offsets_;
  std::array<size_t, 3> stride_{};
};

/// Memory for the work of `blocks` blocks on classes of up to `points` points.
template <typename W, typename Device>
class DeviceClassMemory {
 public:
  DeviceClassMemory(Device& device, size_t points, size_t blocks)
      : contexts_(device.template make<uint8_t>(points * blocks, "contexts")),
        tokens_(device.template make<uint8_t>(points * blocks, "tokens")),
        codes_(device.template make<BitsOf<W>>(points * blocks, "codes")),
        flags_(device.template make<uint8_t>(points / kGroup * blocks, "flags")),
        silent_(device.template make<uint8_t>(points / kGroup * blocks, "silent groups")),
        rank_(device.template make<uint32_t>(points / kGroup * blocks, "ranks")),
        active_(device.template make<uint32_t>(points / kGroup * blocks, "active groups")),
        memory_{points,       contexts_.get(), tokens_.get(), codes_.get(),
                flags_.get(), silent_.get(),   rank_.get(),   active_.get()} {}
  const ClassMemory<W>& get() const { return memory_; }

 private:
  typename Device::template Buffer<uint8_t> contexts_;
  typename Device::template Buffer<uint8_t> tokens_;
  typename Device::template Buffer<BitsOf<W>> codes_;
  typename Device::template Buffer<uint8_t> flags_;
  typename Device::template Buffer<uint8_t> silent_;
  typename Device::template Buffer<uint32_t> rank_;
  typename Device::template Buffer<uint32_t> active_;
  ClassMemory<W> memory_;
};

/// Values, activities, marks, and for coarse points elements.
template <typename W, typename Device>
class DevicePoints {
 public:
  /// `marks`: whether the array has special values; `views`: whether there are values of a view, too.
  DevicePoints(Device& device, size_t points, bool marks, bool elements, bool views = false)
      : value_(device.template make<W>(points, "values")),
        activity_(device.template make<uint8_t>(points, "activities")),
        mark_(device.template make<uint8_t>(marks ? points : 0, "marks")),
        element_(device.template make<BitsOf<W>>(elements ? points : 0, "elements of coarse points")),
        view_(device.template make<W>(views ? points : 0, "values of a view")),
        marks_(marks),
        views_(views) {}
  CoarseMemory<W> coarse() const {
    return {value_.get(), activity_.get(), marks_ ? mark_.get() : Global<uint8_t>(nullptr), element_.get()};
  }
  BrickMemory<W> bricks(size_t points) const {
    return {points, value_.get(), activity_.get(), marks_ ? mark_.get() : Global<uint8_t>(nullptr),
            views_ ? view_.get() : Global<W>(nullptr)};
  }

 private:
  typename Device::template Buffer<W> value_;
  typename Device::template Buffer<uint8_t> activity_;
  typename Device::template Buffer<uint8_t> mark_;
  typename Device::template Buffer<BitsOf<W>> element_;
  typename Device::template Buffer<W> view_;
  bool marks_;
  bool views_;
};

}  // namespace varve::codec::cuda
