// Models with a memory: sticky pages, bad sectors, wear, lost power; and which model does what.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "faults/models.h"

namespace varve::faults {
namespace {

constexpr uint64_t kSector = 512;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kEraseBlock = uint64_t{1} << 20;

uint64_t drawn_offset(Scene& scene) {
  uint64_t sum = 0;
  for (const Aim& aim : scene.aims) {
    sum += aim.end - aim.begin;
  }
  uint64_t number = scene.draw.below(sum);
  for (const Aim& aim : scene.aims) {
    if (number < aim.end - aim.begin) {
      return aim.begin + number;
    }
    number -= aim.end - aim.begin;
  }
  return scene.offset;
}

/// How many events happen, if `mean` are expected and the fixed number `uniform` in [0, 1) decides: grows with `mean`.
uint64_t poisson(double mean, double uniform) {
  constexpr uint64_t kMost = 32768;
  double term = std::exp(-std::min(mean, 700.0));
  double sum = term;
  uint64_t count = 0;
  while (sum < uniform && count < kMost) {
    ++count;
    term *= mean / static_cast<double>(count);
    sum += term;
  }
  return count;
}

double error_rate(const Scene& scene, uint64_t page) {
  const Parameters& parameters = scene.rule.parameters;
  if (scene.rule.model == Model::read_disturb) {
    const uint64_t block = parameters.size.value_or(kEraseBlock);
    const auto wear = scene.file.wear.find(page / block * block);
    const double reads = wear == scene.file.wear.end() ? 0 : static_cast<double>(wear->second.reads);
    return parameters.base_rate + parameters.growth * reads;
  }
  const auto wear = scene.file.wear.find(page | 1);  // pages' ages are kept at odd keys, blocks' reads at even ones
  const std::chrono::duration<double, std::ratio<3600>> age =
      Clock::now() - (wear == scene.file.wear.end() ? scene.file.seen : wear->second.written);
  return parameters.base_rate + parameters.growth * age.count() * parameters.speed;
}

}  // namespace

Result<Effect> stick_page(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  const uint64_t size = parameters.size.value_or(kPage);
  const uint64_t alignment = parameters.alignment.value_or(size);
  const uint64_t page = drawn_offset(scene) / alignment * alignment;
  StuckPage stuck{page, std::vector<std::byte>(size, static_cast<std::byte>(parameters.fill))};
  if (parameters.rest_old) {
    VARVE_ASSIGN(stuck.content, read_padded(scene.medium, page, size));
  }
  scene.file.stuck.push_back(std::move(stuck));
  Effect effect;
  effect.note = fmt::format("bytes {} to {} are stuck from now on", page, page + size - 1);
  return effect;
}

Effect spoil_sector(Scene& scene) {
  const uint64_t size = scene.rule.parameters.size.value_or(kSector);
  const uint64_t sector = drawn_offset(scene) / size * size;
  (scene.op == Op::write ? scene.file.going_bad : scene.file.bad_sectors).add(sector, sector + size);
  scene.file.bad_code = draw_errno(scene.rule.parameters, Op::read, scene.draw);
  Effect effect;
  effect.note = fmt::format("bytes {} to {} cannot be read until they are written", sector, sector + size - 1);
  if (scene.op == Op::read) {
    effect.error = scene.file.bad_code;
  }
  return effect;
}

/// A page's wrong bits depend on the page alone, their number on its wear: more wear, more of the same bits.
Effect wear_read(Scene& scene) {
  Effect effect;
  std::map<uint64_t, std::byte> flips;
  for (uint64_t page = scene.offset / kPage * kPage; page < scene.offset + scene.length; page += kPage) {
    Draw draw(scene.seed, mix(scene.rule_number) ^ hash_of(scene.file.path), page);
    const uint64_t wrong = poisson(error_rate(scene, page) * kPage * 8, draw.uniform());
    if (wrong <= scene.rule.parameters.corrected) {
      continue;
    }
    for (uint64_t i = 0; i < wrong; ++i) {
      const uint64_t bit = draw.below(kPage * 8);
      flips[page + bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
  std::map<uint64_t, std::byte> changes;
  for (const auto& [offset, mask] : flips) {
    for (const Aim& aim : scene.aims) {
      if (offset >= aim.begin && offset < aim.end && mask != std::byte{0}) {
        changes[offset] = scene.byte_at(offset) ^ mask;
      }
    }
  }
  effect.edits = edits_of(changes);
  return effect;
}

namespace {

/// Undoes all, latest first, then does again what is kept. Only what differs in the end becomes a Rest.
std::vector<Rest> undo(const std::vector<UnsyncedWrite>& writes, const std::vector<bool>& lost, const Parameters& how,
                       Draw& draw) {
  std::vector<Rest> rest;
  for (size_t i = writes.size(); i-- > 0;) {
    const UnsyncedWrite& write = writes[i];
    Rest back;
    back.path = write.path;
    back.offset = write.offset;
    back.bytes = write.old;
    back.size_then = write.old_size;
    rest.push_back(std::move(back));
  }
  std::vector<size_t> kept;
  for (size_t i = 0; i < writes.size(); ++i) {
    if (!lost[i]) {
      kept.push_back(i);
    }
  }
  for (size_t i = kept.size(); how.any_order && i > 1; --i) {
    std::swap(kept[i - 1], kept[draw.below(i)]);
  }
  for (const size_t i : kept) {
    Rest again;
    again.path = writes[i].path;
    again.offset = writes[i].offset;
    again.bytes = writes[i].now;
    if (writes[i].now.empty()) {
      again.size_then = writes[i].new_size;  // a truncation
    }
    rest.push_back(std::move(again));
  }
  return rest;
}

}  // namespace

Result<Effect> cut_power(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  const bool overflowed = scene.unsynced.overflowed();
  const std::vector<UnsyncedWrite> writes = scene.unsynced.take(parameters.then != Aftermath::go_on);
  std::vector<bool> lost(writes.size(), true);
  for (size_t i = 0; parameters.random_subset && i < lost.size(); ++i) {
    // The mark of what was written holds for one run of the machine: after a power cut there is another.
    lost[i] = scene.draw.below(2) == 1 || writes[i].path == "db-written";
  }
  Effect effect;
  effect.rest = undo(writes, lost, parameters, scene.draw);
  effect.note = fmt::format("{} of {} unsynced writes are lost{}", std::ranges::count(lost, true), writes.size(),
                            overflowed ? "; older ones were not kept in mind, and persist" : "");
  effect.error = EIO;
  return effect;
}

int draw_errno(const Parameters& parameters, Op op, Draw& draw) {
  std::vector<int> codes = parameters.codes;
  if (codes.empty()) {
    switch (op) {
      case Op::write:
      case Op::create:
      case Op::allocate:
      case Op::mkdir:
      case Op::symlink:
      case Op::link:
      case Op::setxattr:
        codes = {EIO, ENOSPC, EDQUOT, EROFS};
        break;
      case Op::fsync:
      case Op::close:
        codes = {EIO, ENOSPC, EDQUOT};
        break;
      case Op::truncate:
      case Op::setattr:
      case Op::unlink:
      case Op::rmdir:
      case Op::rename:
        codes = {EIO, EROFS};
        break;
      default:
        codes = {EIO};
    }
  }
  if (parameters.weights.empty()) {
    return codes[draw.below(codes.size())];
  }
  double sum = 0;
  for (const double weight : parameters.weights) {
    sum += weight;
  }
  double left = draw.uniform() * sum;
  for (size_t i = 0; i + 1 < codes.size(); ++i) {
    left -= parameters.weights[i];
    if (left < 0) {
      return codes[i];
    }
  }
  return codes.back();
}

uint64_t draw_delay(const Parameters& parameters, Draw& draw) {
  const double value = parameters.milliseconds;
  const double most = parameters.most_milliseconds > 0 ? parameters.most_milliseconds : 100 * value;
  double drawn = value;
  switch (parameters.spread) {
    case Spread::fixed:
      break;
    case Spread::uniform:
      drawn = value + draw.uniform() * (most - value);
      break;
    case Spread::exponential:
      drawn = -value * std::log1p(-draw.uniform());
      break;
    case Spread::pareto:  // shape 1.5: a finite mean of three times the least, no variance
      drawn = value / std::pow(1 - draw.uniform(), 1 / 1.5);
      break;
  }
  return static_cast<uint64_t>(1000 * std::max(0.0, std::min(drawn, std::max(most, value))));
}

Result<Effect> effect_of(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  Effect effect;
  switch (scene.rule.model) {
    case Model::count:
    case Model::enospc_at:  // decided where bytes are counted
      return effect;
    case Model::bit_flip:
      return flip_bits(scene);
    case Model::byte_corrupt:
      return corrupt_bytes(scene);
    case Model::zero_block:
      return zero_block(scene);
    case Model::stuck_page:
      return stick_page(scene);
    case Model::shorn_write:
      return shear_write(scene);
    case Model::torn_write:
      return tear_write(scene);
    case Model::dropped_write: {
      Edit all;
      all.offset = scene.offset;
      all.length = scene.length;
      all.from = Edit::From::old;
      effect.edits.push_back(all);
      effect.grows = parameters.grows;
      return effect;
    }
    case Model::stale_read:
      effect.edits = edits_of(scene.file.previous.differences(scene.offset, scene.data));
      return effect;
    case Model::misdirected_write:
    case Model::misdirected_read: {
      VARVE_ASSIGN(const uint64_t size, scene.medium.size());
      return misdirect(scene, size);
    }
    case Model::unserializable_write:
      scene.file.held.push_back(
          {scene.offset, {scene.data.begin(), scene.data.end()}, parameters.window, scene.rule_number});
      effect.note = fmt::format("comes again after {} more writes", parameters.window);
      return effect;
    case Model::lost_sync:
      effect.skipped = true;
      return effect;
    case Model::power_cut:
      return cut_power(scene);
    case Model::latent_sector_error:
      return spoil_sector(scene);
    case Model::read_disturb:
    case Model::retention:
      return wear_read(scene);
    case Model::dead_device:
      effect.error = parameters.codes.empty() ? EIO : draw_errno(parameters, scene.op, scene.draw);
      return effect;
    case Model::error:
      effect.error = draw_errno(parameters, scene.op, scene.draw);
      return effect;
    case Model::crash:
      effect.ending = parameters.before ? Ending::crash_before : Ending::crash_after;
      return effect;
    case Model::kill_caller:
      effect.ending = parameters.before ? Ending::kill_caller_before : Ending::kill_caller_after;
      return effect;
    case Model::delay:
      effect.delay = draw_delay(parameters, scene.draw);
      return effect;
    case Model::short_read:
    case Model::short_write:
      if (scene.length > 1) {
        effect.count =
            parameters.bytes ? std::min(*parameters.bytes, scene.length) : 1 + scene.draw.below(scene.length - 1);
      }
      return effect;
  }
  return effect;
}

}  // namespace varve::faults
