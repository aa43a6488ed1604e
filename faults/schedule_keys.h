// Which keys and operations go with which model; one fault's table.
#pragma once

#include <string_view>
#include <vector>

#include "faults/schedule.h"
#include "faults/toml_reader.h"

namespace varve::faults {

/// All keys that a [[fault]] of this model may have.
std::vector<std::string_view> keys_of(Model model);
/// What it acts on if the schedule does not say.
Op default_operation(Model model);
/// The `number`th [[fault]], from 1. EINVAL; ENODATA where more keys could make it right.
Result<Rule> read_rule(const TableReader& in, size_t number);

}  // namespace varve::faults
