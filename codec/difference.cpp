#include "codec/difference.h"

#include "codec/tokens.h"

namespace varve::codec {

DifferenceAxis::DifferenceAxis(const Settings& settings, const Box& box) {
  if (!settings.difference_axis.has_value()) {
    return;
  }
  any_ = true;
  const size_t axis = *settings.difference_axis;
  const std::vector<uint8_t>& predicted = settings.geometry.predicted;
  const auto found = std::find(predicted.begin(), predicted.end(), axis);
  if (found != predicted.end()) {
    grid_axis_ = 3 - predicted.size() + static_cast<size_t>(found - predicted.begin());
    return;
  }
  extent_ = box.shape[axis];
  for (size_t after = axis + 1; after < box.shape.size(); ++after) {
    const bool batch = std::find(predicted.begin(), predicted.end(), after) == predicted.end();
    items_between_ *= batch ? box.shape[after] : 1;
  }
}

CodeSteps DifferenceAxis::steps(const Dims& of_class) const {
  const auto& n = of_class.n;
  switch (grid_axis_) {
    case 0:
      return {n[0], n[1] * n[2]};
    case 1:
      return {n[1], n[2]};
    case 2:
      return {n[2], 1};
    default:
      return {extent_, items_between_ * n[0] * n[1] * n[2]};
  }
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
