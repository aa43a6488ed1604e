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
  BitsOf<W>* const codes = codes_.reserve(count + kSlackBytes);
  typed<W>(kernels()).codes_of(tokens, count, wide, codes);
  find_uncoded(tokens, count);
  for (const Uncoded& one : uncoded_) {
    codes[one.place] = one.place / steps.step % steps.extent > 0 ? codes[one.place - steps.step] : 0;
  }
  const size_t block = steps.extent * steps.step;
  for (size_t begin = 0; begin < count; begin += block) {
    typed<W>(kernels()).subtract_before(codes + begin, block, steps.step);
  }
  return put_tokens(tokens, count, wide);
}

template <typename W>
size_t CodeDifferences<W>::undo(uint8_t* tokens, size_t count, CodeSteps steps, BitsOf<W>* wide) {
  BitsOf<W>* const codes = codes_.reserve(count + kSlackBytes);
  typed<W>(kernels()).codes_of(tokens, count, wide, codes);
  find_uncoded(tokens, count);
  const size_t block = steps.extent * steps.step;
  for (size_t begin = 0; begin < count; begin += block) {
    typed<W>(kernels()).add_before(codes + begin, block, steps.step);
  }
  for (const Uncoded& one : uncoded_) {
    codes[one.place] = 0;
  }
  return put_tokens(tokens, count, wide);
}

template <typename W>
void CodeDifferences<W>::find_uncoded(const uint8_t* tokens, size_t count) {
  uncoded_.clear();
  if (!kernels().any_outside(tokens, count, kTokenZero, UINT8_MAX)) {
    return;
  }
  uint32_t* const places = places_.reserve(count);
  const size_t found = kernels().find_outside(tokens, count, kTokenZero, UINT8_MAX, places);
  for (size_t k = 0; k < found; ++k) {
    uncoded_.push_back({places[k], tokens[places[k]]});
  }
}

template <typename W>
size_t CodeDifferences<W>::put_tokens(uint8_t* tokens, size_t count, BitsOf<W>* wide) {
  const size_t wide_count = typed<W>(kernels()).tokens_of(codes_.data(), count, tokens, wide);
  for (const Uncoded& one : uncoded_) {
    tokens[one.place] = one.token;
  }
  return wide_count;
}

template class CodeDifferences<float>;
template class CodeDifferences<double>;
template class CodeDifferences<int32_t>;
template class CodeDifferences<int64_t>;

}  // namespace varve::codec
