#include "codec/difference.h"

#include "codec/tokens.h"

namespace varve::codec {

DifferenceAxis::DifferenceAxis(const Settings& settings, const Box& box) {
  if (!settings.difference_axis.has_value()) {
    return;
  }
  any_ = true;
  const Geometry& geometry = settings.geometry;
  const size_t axis = *settings.difference_axis;
  grid_axis_ = geometry.grid_axis(axis);
  extent_ = box.shape[axis];
  for (size_t after = axis + 1; after < box.shape.size(); ++after) {
    items_between_ *= geometry.grid_axis(after) ? 1 : box.shape[after];
  }
}

CodeSteps DifferenceAxis::steps(const Dims& of_class) const {
  size_t between = 1;
  for (size_t axis = grid_axis_ ? *grid_axis_ + 1 : 0; axis < 3; ++axis) {
    between *= of_class.n.at(axis);
  }
  return grid_axis_ ? CodeSteps{of_class.n.at(*grid_axis_), between} : CodeSteps{extent_, items_between_ * between};
}

template <typename W>
size_t CodeDifferences<W>::take(uint8_t* tokens, size_t count, CodeSteps steps, BitsOf<W>* wide) {
  const TypedKernels<W>& set = typed<W>(kernels());
  BitsOf<W>* const codes = codes_.reserve(count + kSlackBytes);
  set.codes_of(tokens, count, wide, codes);
  const bool all_coded = !kernels().any_outside(tokens, count, kTokenZero, UINT8_MAX);
  const size_t block = steps.extent * steps.step;
  for (size_t begin = 0; begin < count; begin += block) {
    if (!all_coded) {
      set.carry_codes(tokens + begin, codes + begin, block, steps.step);
    }
    set.subtract_before(codes + begin, block, steps.step);
  }
  return set.tokens_of(codes, count, tokens, wide);
}

template <typename W>
size_t CodeDifferences<W>::undo(uint8_t* tokens, size_t count, CodeSteps steps, BitsOf<W>* wide) {
  const TypedKernels<W>& set = typed<W>(kernels());
  BitsOf<W>* const codes = codes_.reserve(count + kSlackBytes);
  set.codes_of(tokens, count, wide, codes);
  const size_t block = steps.extent * steps.step;
  for (size_t begin = 0; begin < count; begin += block) {
    set.add_before(codes + begin, block, steps.step);
  }
  return set.tokens_of(codes, count, tokens, wide);
}

template class CodeDifferences<float>;
template class CodeDifferences<double>;
template class CodeDifferences<int32_t>;
template class CodeDifferences<int64_t>;

}  // namespace varve::codec
