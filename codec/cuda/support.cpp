#include "codec/cuda/support.h"

namespace varve::codec::cuda {

Unsupported why_unsupported(const Settings& settings) {
  if (settings.is_integers()) {
    return Unsupported::decimals;
  }
  switch (settings.scheme) {
    case Scheme::elements:
      return Unsupported::elements;
    case Scheme::residuals:
      return Unsupported::lossless;
    default:
      return settings.is_mapped() ? Unsupported::mapped : Unsupported::no;
  }
}

std::string_view text_of(Unsupported why) {
  switch (why) {
    case Unsupported::no:
      return "kernels work on it";
    case Unsupported::decimals:
      return "its floats are stored as integers";
    case Unsupported::elements:
      return "its elements are stored without predictions";
    case Unsupported::lossless:
      return "it is stored without loss";
    default:
      return "its elements are quantized as other numbers than themselves";
  }
}

}  // namespace varve::codec::cuda
