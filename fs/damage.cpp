#include "fs/damage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fs/core.h"
#include "fs/log.h"

namespace varve::fs {

namespace {

using nlohmann::json;

constexpr size_t kMostText = 65536;  ///< of an extended attribute
constexpr std::string_view kMore = "{\"more\": true}\n";

std::string line_of(const DegradedBrick& brick) {
  json line;
  line["array"] = brick.array;
  line["brick"] = brick.brick;
  line["box"] = json::array();
  for (size_t i = 0; i < brick.box.shape.size(); ++i) {
    line["box"].push_back({brick.box.origin[i], brick.box.origin[i] + brick.box.shape[i]});
  }
  line["levels"] = json::array();
  for (uint8_t level = 0; level < brick.finest; ++level) {
    line["levels"].push_back(level);
  }
  line["when"] = brick.when;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<DegradedBrick> parse_line(const json& line) {
  DegradedBrick brick;
  try {
    line.at("array").get_to(brick.array);
    line.at("brick").get_to(brick.brick);
    line.at("when").get_to(brick.when);
    brick.finest = static_cast<uint8_t>(std::min<size_t>(line.at("levels").size(), codec::kCoarseLevel));
    for (const json& range : line.at("box")) {
      const auto first = range.at(0).get<uint64_t>();
      brick.box.origin.push_back(first);
      brick.box.shape.push_back(range.at(1).get<uint64_t>() - first);
    }
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return brick.finest > 0 ? std::optional(std::move(brick)) : std::nullopt;
}

}  // namespace

bool DegradedBricks::add(DegradedBrick brick) {
  const auto known = std::ranges::find_if(
      bricks, [&](const DegradedBrick& other) { return other.brick == brick.brick && other.array == brick.array; });
  if (known != bricks.end()) {
    const bool worse = known->finest < brick.finest;
    known->finest = std::max(known->finest, brick.finest);
    return worse;
  }
  if (more) {
    return false;
  }
  bricks.push_back(std::move(brick));
  if (text().size() > kMostText - kMore.size()) {
    bricks.pop_back();
    more = true;
  }
  return true;
}

uint8_t DegradedBricks::finest_of(std::string_view array) const {
  uint8_t finest = more ? codec::kCoarseLevel : uint8_t{0};
  for (const DegradedBrick& brick : bricks) {
    finest = brick.array == array ? std::max(finest, brick.finest) : finest;
  }
  return finest;
}

std::string DegradedBricks::text() const {
  std::string text;
  for (const DegradedBrick& brick : bricks) {
    text += line_of(brick);
  }
  return more ? text.append(kMore) : text;
}

DegradedBricks DegradedBricks::parse(std::string_view text) {
  DegradedBricks found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const json parsed = json::parse(line, nullptr, false);
    if (parsed.is_object() && parsed.contains("more")) {
      found.more = true;
    } else if (auto brick = parsed.is_object() ? parse_line(parsed) : std::nullopt) {
      found.bricks.push_back(*std::move(brick));
    }
  }
  return found;
}

/// Of arrays that the file's rules let degrade. Integers that are exact may be labels or indices: never.
bool Core::ReadDamage::may_interpolate(const Sealed& sealed, uint32_t array) {
  const codec::ArrayCodec& codec = sealed.codecs[array];
  return (codec::is_float(codec.dtype()) || codec.info().absolute_bound > 0) &&
         handle_.rules->on_damage(handle_.path, sealed.layout.arrays[array].region.name) == OnDamage::degrade;
}

void Core::ReadDamage::interpolated(const Sealed& sealed, uint32_t array, uint64_t brick, uint8_t finest,
                                    const Error& reason) {
  DegradedBrick found{sealed.layout.arrays[array].region.name, brick, finest, sealed.codecs[array].brick_box(brick),
                      fmt::format("{:%FT%TZ}", fmt::gmtime(now().seconds))};
  Node& node = *handle_.node;
  const std::lock_guard lock(node.damage.mutex);
  const std::string name = found.array;
  if (!node.damage.list.add(std::move(found))) {
    return;
  }
  log_line(LogLevel::error,
           fmt::format("{}: array \"{}\", brick {}: levels 0 to {} are interpolated (on_damage = \"degrade\"): {}",
                       handle_.path, name, brick, finest - 1, reason.text));
  if (const Status put = core_.put_damage(node); !put.ok()) {
    log_line(LogLevel::warning,
             fmt::format("{}: {} is not stored: {}", handle_.path, kDamageAttribute, put.error().text));
  }
}

/// Stores the node's list. Its lock is held.
Status Core::put_damage(const Node& node) {
  if (options_.read_only) {
    return {};
  }
  index::Batch batch;
  const std::string text = node.damage.list.text();
  if (text.empty()) {
    batch.erase_xattr(node.number, kDamageAttribute);
  } else {
    batch.put_xattr(node.number, kDamageAttribute, text);
  }
  return commit(std::move(batch));
}

/// What was given of the node before, if anything was.
DegradedBricks Core::damage_of(Node& node) {
  const std::lock_guard lock(node.damage.mutex);
  if (!node.damage.loaded) {
    const auto text = index_->xattr(node.number, kDamageAttribute);
    if (text.ok() && text->has_value()) {
      node.damage.list = DegradedBricks::parse(**text);
    }
    node.damage.loaded = text.ok();
  }
  return node.damage.list;
}

/// Lets go of what the list says of elements that the content has no more, or has whole; of all, without content. The
/// node's lock is held exclusively.
Status Core::recheck_damage(Node& node) {
  DegradedBricks before = damage_of(node);
  if (before.empty()) {
    return {};
  }
  const Sealed* const sealed = node.inode.object != 0 ? node.sealed.get() : nullptr;
  const auto is_damaged = [&](const DegradedBrick& brick) {
    for (uint32_t array = 0; sealed != nullptr && array < sealed->codecs.size(); ++array) {
      const codec::ArrayCodec& codec = sealed->codecs[array];
      if (sealed->layout.arrays[array].region.name == brick.array && brick.brick < codec.brick_count() &&
          codec.brick_box(brick.brick) == brick.box) {
        const auto record =
            index_->record(sealed->object, {array + 1, static_cast<uint8_t>(brick.finest - 1), brick.brick});
        return !record.ok() && record.error().code == EIO;
      }
    }
    return false;
  };
  DegradedBricks kept;
  kept.more = before.more && sealed != nullptr;
  std::ranges::copy_if(before.bricks, std::back_inserter(kept.bricks), is_damaged);
  if (kept.bricks.size() == before.bricks.size() && kept.more == before.more) {
    return {};
  }
  return replace_damage(node, std::move(kept));
}

/// The node's lock is held exclusively.
Status Core::replace_damage(Node& node, DegradedBricks list) {
  {
    const std::lock_guard lock(node.damage.mutex);
    node.damage.list = std::move(list);
    VARVE_TRY(put_damage(node));
  }
  node.stale_pages = true;  // the kernel's show what was given
  forget_view_pages(node.number);
  return {};
}

}  // namespace varve::fs
