#include "faults/schedule_keys.h"

#include <algorithm>

#include "faults/schedule.h"

namespace varve::faults {

std::vector<std::string_view> keys_of(Model model) {
  std::vector<std::string_view> keys = {"name",  "model",       "seam",   "operation", "path",    "process",
                                        "pid",   "kind",        "level",  "brick",     "object",  "nth",
                                        "every", "probability", "after",  "from_mark", "to_mark", "limit",
                                        "per",   "offset",      "ranges", "region",    "dataset", "structure"};
  const auto add = [&](std::initializer_list<std::string_view> more) { keys.insert(keys.end(), more); };
  switch (model) {
    case Model::bit_flip:
      add({"count", "scattered", "bits", "byte", "element", "big_endian", "element_base"});
      break;
    case Model::byte_corrupt:
      add({"count", "scattered", "byte", "element", "big_endian", "element_base"});
      break;
    case Model::zero_block:
      add({"size", "alignment", "fill"});
      break;
    case Model::stuck_page:
      add({"size", "alignment", "fill", "rest"});
      break;
    case Model::shorn_write:
      add({"kept", "size", "rest", "fill", "grows"});
      break;
    case Model::torn_write:
      add({"cut", "parts", "persist", "run", "rest", "fill", "grows", "then"});
      break;
    case Model::dropped_write:
      add({"grows"});
      break;
    case Model::misdirected_write:
    case Model::misdirected_read:
      add({"distance"});
      break;
    case Model::unserializable_write:
      add({"window"});
      break;
    case Model::power_cut:
      add({"lost", "any_order", "then"});
      break;
    case Model::latent_sector_error:
      add({"errno", "weights", "size"});
      break;
    case Model::read_disturb:
      add({"base_rate", "growth", "size", "corrected"});
      break;
    case Model::retention:
      add({"base_rate", "growth", "speed", "corrected"});
      break;
    case Model::dead_device:
    case Model::error:
      add({"errno", "weights"});
      break;
    case Model::crash:
    case Model::kill_caller:
      add({"before"});
      break;
    case Model::delay:
      add({"milliseconds", "most_milliseconds", "distribution"});
      break;
    case Model::short_read:
    case Model::short_write:
    case Model::enospc_at:
      add({"bytes"});
      break;
    case Model::count:
    case Model::stale_read:
    case Model::lost_sync:
      break;
  }
  return keys;
}

Op default_operation(Model model) {
  switch (model) {
    case Model::stale_read:
    case Model::misdirected_read:
    case Model::latent_sector_error:
    case Model::read_disturb:
    case Model::retention:
    case Model::short_read:
      return Op::read;
    case Model::lost_sync:
      return Op::fsync;
    default:
      return Op::write;
  }
}

bool acts_on(Model model, Op op) {
  switch (model) {
    case Model::bit_flip:
    case Model::byte_corrupt:
    case Model::zero_block:
      return op == Op::read || op == Op::write || op == Op::close;
    case Model::stuck_page:
    case Model::latent_sector_error:
      return op == Op::read || op == Op::write;
    case Model::shorn_write:
    case Model::torn_write:
    case Model::dropped_write:
    case Model::misdirected_write:
    case Model::unserializable_write:
    case Model::short_write:
    case Model::enospc_at:
      return op == Op::write;
    case Model::stale_read:
    case Model::misdirected_read:
    case Model::read_disturb:
    case Model::retention:
    case Model::short_read:
      return op == Op::read;
    case Model::lost_sync:
      return op == Op::fsync;
    default:
      return true;
  }
}

bool changes_content(Model model) {
  switch (model) {
    case Model::bit_flip:
    case Model::byte_corrupt:
    case Model::zero_block:
    case Model::stuck_page:
    case Model::shorn_write:
      return true;
    default:
      return false;
  }
}

}  // namespace varve::faults
