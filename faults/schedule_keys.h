// Which keys and operations go with which model.
#pragma once

#include <string_view>
#include <vector>

#include "faults/words.h"

namespace varve::faults {

/// All keys that a [[fault]] of this model may have.
std::vector<std::string_view> keys_of(Model model);
/// What it acts on if the schedule does not say.
Op default_operation(Model model);

}  // namespace varve::faults
