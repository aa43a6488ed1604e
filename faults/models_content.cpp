// Models that change the bytes of one operation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "faults/models.h"

namespace varve::faults {
namespace {

constexpr uint64_t kSector = 512;
constexpr uint64_t kPage = 4096;
constexpr int kTries = 64;

uint64_t total(const std::vector<Aim>& aims) {
  uint64_t sum = 0;
  for (const Aim& aim : aims) {
    sum += aim.end - aim.begin;
  }
  return sum;
}

/// The aim that holds the `number`th byte of them all, and the byte's offset.
std::pair<const Aim*, uint64_t> byte_of(const std::vector<Aim>& aims, uint64_t number) {
  for (const Aim& aim : aims) {
    if (number < aim.end - aim.begin) {
      return {&aim, aim.begin + number};
    }
    number -= aim.end - aim.begin;
  }
  return {nullptr, 0};
}

bool inside(const std::vector<Aim>& aims, uint64_t offset) {
  return std::ranges::any_of(aims, [&](const Aim& aim) { return offset >= aim.begin && offset < aim.end; });
}

/// A bit of what a rule aims at: of one element, or of one byte where elements do not matter.
struct BitPlace {
  const Aim* aim = nullptr;
  uint64_t start = 0;  ///< file offset of the element or byte
  uint64_t bit = 0;    ///< in it, by significance
};

/// The bits of each element that the rule aims at, [first, last); nothing: elements do not matter, any bit will do.
std::optional<std::pair<uint64_t, uint64_t>> aimed_bits(const Rule& rule, const Aim& aim) {
  return rule.aims_at_bits() && aim.element ? rule.bits_of(*aim.element) : std::nullopt;
}

/// The byte that holds it.
uint64_t offset_of(const Rule& rule, const BitPlace& place) {
  if (!aimed_bits(rule, *place.aim)) {
    return place.start;
  }
  const uint64_t size = codec::element_size(*place.aim->element);
  const uint64_t significance = place.bit / 8;
  return place.start + (place.aim->big_endian ? size - 1 - significance : significance);
}

BitPlace draw_bit(Scene& scene) {
  const uint64_t bytes = total(scene.aims);
  BitPlace place;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto [aim, offset] = byte_of(scene.aims, scene.draw.below(bytes));
    place = {aim, offset, scene.draw.below(8)};
    const auto bits = aimed_bits(scene.rule, *aim);
    if (!bits) {
      return place;
    }
    const uint64_t size = codec::element_size(*aim->element);
    place.start = offset - (offset + size - aim->element_base % size) % size;
    place.bit = bits->first + scene.draw.below(bits->second - bits->first);
    if (inside(scene.aims, offset_of(scene.rule, place))) {
      return place;
    }
  }
  return place;  // every element straddles a border: outside the operation, and so without effect
}

/// The next bit that is aimed at, in the order of significance; then the next element's first.
BitPlace bit_after(const Rule& rule, BitPlace place) {
  const auto bits = aimed_bits(rule, *place.aim);
  const auto [first, last] = bits.value_or(std::pair<uint64_t, uint64_t>(0, 8));
  if (++place.bit == last) {
    place.bit = first;
    place.start += bits ? codec::element_size(*place.aim->element) : 1;
  }
  return place;
}

/// The same for whole bytes.
BitPlace byte_after(const Rule& rule, BitPlace place) {
  place.start += aimed_bits(rule, *place.aim) ? codec::element_size(*place.aim->element) : 1;
  return place;
}

}  // namespace

std::byte Scene::byte_at(uint64_t at) {
  if (!data.empty()) {
    return at >= offset && at - offset < data.size() ? data[at - offset] : std::byte{0};
  }
  std::byte value{0};
  const auto got = medium.read(at, {&value, 1});
  return got.ok() ? value : std::byte{0};
}

Effect flip_bits(Scene& scene) {
  std::map<uint64_t, std::byte> flips;
  BitPlace place = draw_bit(scene);
  for (uint64_t i = 0; i < scene.rule.parameters.count; ++i) {
    if (i > 0 && scene.rule.parameters.scattered) {
      place = draw_bit(scene);
    } else if (i > 0) {
      place = bit_after(scene.rule, place);
    }
    if (const uint64_t offset = offset_of(scene.rule, place); inside(scene.aims, offset)) {
      flips[offset] ^= std::byte{1} << place.bit % 8;
    }
  }
  std::map<uint64_t, std::byte> changes;
  for (const auto& [offset, mask] : flips) {
    if (mask != std::byte{0}) {
      changes[offset] = scene.byte_at(offset) ^ mask;
    }
  }
  Effect effect;
  effect.edits = edits_of(changes);
  return effect;
}

Effect corrupt_bytes(Scene& scene) {
  std::map<uint64_t, std::byte> changes;
  BitPlace place = draw_bit(scene);
  for (uint64_t i = 0; i < scene.rule.parameters.count; ++i) {
    if (i > 0) {
      place = scene.rule.parameters.scattered ? draw_bit(scene) : byte_after(scene.rule, place);
    }
    const uint64_t offset = offset_of(scene.rule, place);
    const auto other = static_cast<std::byte>(1 + scene.draw.below(255));  // another value, for sure
    if (inside(scene.aims, offset)) {
      changes[offset] = scene.byte_at(offset) ^ other;
    }
  }
  Effect effect;
  effect.edits = edits_of(changes);
  return effect;
}

Result<Effect> zero_block(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  const uint64_t size = parameters.size.value_or(kPage);
  const uint64_t alignment = parameters.alignment.value_or(size);
  const uint64_t chosen = byte_of(scene.aims, scene.draw.below(total(scene.aims))).second;
  const uint64_t block = chosen / alignment * alignment;
  Effect effect;
  for (const Aim& aim : scene.aims) {
    const uint64_t begin = std::max(block, aim.begin);
    const uint64_t end = std::min(block + size, aim.end);
    if (begin < end) {
      Edit edit;
      edit.offset = begin;
      edit.length = end - begin;
      edit.from = Edit::From::fill;
      edit.fill = parameters.fill;
      effect.edits.push_back(edit);
    }
  }
  return effect;
}

namespace {

/// What a write lost: as before, or filled.
void lose(const Parameters& parameters, uint64_t begin, uint64_t end, Effect& effect) {
  if (begin < end) {
    Edit edit;
    edit.offset = begin;
    edit.length = end - begin;
    edit.from = parameters.rest_old ? Edit::From::old : Edit::From::fill;
    edit.fill = parameters.fill;
    effect.edits.push_back(edit);
  }
  effect.grows = parameters.grows;
}

}  // namespace

Result<Effect> shear_write(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  const uint64_t block = parameters.size.value_or(kPage);
  const double part = parameters.kept[scene.draw.below(parameters.kept.size())];
  const auto keep = static_cast<uint64_t>(std::floor(part * static_cast<double>(block)));
  Effect effect;
  effect.note = fmt::format("the first {} bytes of each {} persist", keep, block);
  for (const Aim& aim : scene.aims) {
    for (uint64_t start = aim.begin / block * block; start < aim.end; start += block) {
      lose(parameters, std::max(start + keep, aim.begin), std::min(start + block, aim.end), effect);
    }
  }
  return effect;
}

namespace {

/// Two different ones of `parts`, one that is lost and one that persists, so that a tear never keeps or loses all of
/// them; the others' fates are drawn. A single part is lost.
std::pair<uint64_t, uint64_t> draw_lost_and_kept(Draw& draw, uint64_t parts) {
  const uint64_t lost = draw.below(parts);
  const uint64_t kept = parts > 1 ? (lost + 1 + draw.below(parts - 1)) % parts : parts;
  return {lost, kept};
}

/// A run of whole writes, of which some persist.
Effect tear_run(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  auto& [left, at, lost, kept] = scene.file.runs[scene.rule_number];
  if (left == 0) {
    left = parameters.run;
    at = 0;
    std::tie(lost, kept) = draw_lost_and_kept(scene.draw, parameters.run);
  }
  const bool drawn = at == kept || (at != lost && scene.draw.below(2) == 1);
  const bool persists =
      parameters.persist.empty() ? drawn : std::ranges::find(parameters.persist, at) != parameters.persist.end();
  Effect effect;
  effect.note = fmt::format("write {} of a run of {} {}", at, parameters.run, persists ? "persists" : "is lost");
  if (!persists) {
    lose(parameters, scene.offset, scene.offset + scene.length, effect);
  }
  ++at;
  if (--left == 0 && parameters.then == Aftermath::crash) {
    effect.ending = Ending::crash_after;
  }
  return effect;
}

}  // namespace

Result<Effect> tear_write(Scene& scene) {
  const Parameters& parameters = scene.rule.parameters;
  if (parameters.run > 1) {
    return tear_run(scene);
  }
  const uint64_t grain = parameters.cut == Cut::byte ? 1 : parameters.cut == Cut::sector ? kSector : kPage;
  const uint64_t first = scene.offset / grain + 1;  // borders that lie inside, counted from the file's start
  const uint64_t last = (scene.offset + scene.length - 1) / grain;
  std::vector<uint64_t> cuts;
  if (last < first) {
    return Effect{};  // it lies within one sector or page, which is written whole
  }
  const uint64_t borders = last - first + 1;
  const uint64_t wanted = std::min(parameters.parts - 1, borders);
  for (int tries = 0; cuts.size() < wanted && tries < 1 << 16; ++tries) {
    const uint64_t cut = (first + scene.draw.below(borders)) * grain;
    if (std::ranges::find(cuts, cut) == cuts.end()) {
      cuts.push_back(cut);
    }
  }
  std::ranges::sort(cuts);
  cuts.insert(cuts.begin(), scene.offset);
  cuts.push_back(scene.offset + scene.length);
  const size_t parts = cuts.size() - 1;
  std::vector<bool> persists(parts);
  for (const uint64_t part : parameters.persist) {
    if (part < parts) {
      persists[part] = true;
    }
  }
  if (parameters.persist.empty()) {
    const auto [lost, kept] = draw_lost_and_kept(scene.draw, parts);
    for (size_t i = 0; i < parts; ++i) {
      persists[i] = i == kept || (i != lost && scene.draw.below(2) == 1);
    }
  }
  Effect effect;
  effect.note = fmt::format("cut into {} parts", parts);
  for (size_t i = 0; i < parts; ++i) {
    if (!persists[i]) {
      lose(parameters, cuts[i], cuts[i + 1], effect);
    }
  }
  if (parameters.then == Aftermath::crash) {
    effect.ending = Ending::crash_after;
  }
  return effect;
}

Effect misdirect(Scene& scene, uint64_t file_size) {
  constexpr uint64_t kFarthest = 64;  // in pages
  Effect effect;
  if (scene.rule.parameters.distance) {
    effect.moved = *scene.rule.parameters.distance;
  } else {
    // Uniform over the places inside the file; where there is none, a write goes past its end.
    const uint64_t end = scene.offset + scene.length;
    const uint64_t back = std::min(scene.offset / kPage, kFarthest);
    const uint64_t forward = std::min(file_size > end ? (file_size - end) / kPage : 0, kFarthest);
    int64_t pages = 0;
    if (back + forward > 0) {
      const uint64_t drawn = scene.draw.below(back + forward);
      pages = drawn < back ? -static_cast<int64_t>(drawn + 1) : static_cast<int64_t>(drawn - back + 1);
    } else if (scene.op == Op::write) {
      pages = static_cast<int64_t>(1 + scene.draw.below(kFarthest));
    }
    effect.moved = pages * static_cast<int64_t>(kPage);
  }
  if (static_cast<int64_t>(scene.offset) + effect.moved < 0) {
    effect.moved = 0;  // before the file's start there is nothing
  }
  return effect;
}

}  // namespace varve::faults
