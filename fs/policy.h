// Which bound each array gets: rules in STORE/policy.toml and bounds inherited from directories.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/types.h"
#include "fs/formats/recogniser.h"

namespace varve::fs {

/// What reads of elements give whose record is damaged.
enum class OnDamage : uint8_t {
  eio,      ///< EIO
  degrade,  ///< values interpolated from coarser levels, as far as these are whole
};

/// One [[rule]] of policy.toml.
struct PolicyRule {
  std::string
      path;  ///< glob over the path from the mount's root, without a leading slash: * and ? stop at '/', ** does not
  std::string dataset;  ///< glob over the dataset's name; empty: any dataset
  std::optional<codec::Bound> bound;
  bool integers = false;  ///< `bound` applies to integers too
  std::optional<RawHint> raw;
  std::optional<OnDamage> on_damage;
  size_t line = 0;  ///< in policy.toml, for messages
};

/// What a file is sealed with, fixed when it is created or its bound is set. Small; stored with the inode as text.
struct FilePolicy {
  struct Choice {
    std::string dataset;  ///< glob; empty: any dataset
    codec::Bound bound;
    bool integers = false;
  };
  std::vector<Choice> choices;  ///< the first that matches wins; none: lossless
  std::optional<RawHint> raw;

  /// The bound for one array, after the contract's protections. Unless a choice names the dataset, arrays with
  /// keep_exact, 1-D arrays of under 4,096 elements (or pairs) and arrays of under 10,000 bytes stay lossless;
  /// "checksummed" and "deflated" stay so even then. A glob of nothing but * and / names no dataset. Integers stay
  /// lossless unless the choice says `integers` or names the dataset with a last component free of wildcards:
  /// identifiers and labels must not change because a glob caught them. `why` (if not null) gets a sentence.
  codec::Bound bound_for(const ArrayRegion& array, std::string* why = nullptr) const;

  std::string serialise() const;
  static Result<FilePolicy> parse(std::string_view text);
};

/// Immutable once parsed.
class Policy {
 public:
  /// An unknown key, a bad glob, bound or dtype, or bad TOML: EINVAL; the text has the line, the reason, and a remedy.
  static Result<Policy> parse(std::string_view toml);

  /// The policy of a new file. `path`: from the mount's root, without a leading slash. `inherited`: the nearest
  /// directory's user.varve.bound, or the file's own. Order: rules with a dataset glob; `inherited`; rules without one;
  /// among rules the first in the file wins.
  FilePolicy for_file(std::string_view path, const std::optional<codec::Bound>& inherited) const;

  /// What holds for an array now, however it was sealed. Rules with a dataset glob come before those without, and
  /// before the key at the top of the file; among rules the first in the file wins.
  OnDamage on_damage(std::string_view path, std::string_view dataset) const;
  /// Does it say "degrade" anywhere?
  bool may_degrade() const;

  const std::vector<PolicyRule>& rules() const { return rules_; }

 private:
  std::vector<PolicyRule> rules_;
  OnDamage on_damage_ = OnDamage::eio;
};

/// Shell-like match: * and ? do not cross '/', ** does (and a leading or inner "**/" also stands for no directory at
/// all), [a-z] and [!a-z] sets (which never hold '/'), \ escapes. Time: at most pattern times text. A pattern that
/// check_glob refuses matches nothing.
bool glob_match(std::string_view pattern, std::string_view text);

/// EINVAL, with the reason: a set that does not end or is empty or upside down, a \ at the end, control characters.
Status check_glob(std::string_view pattern);

/// glob_match for dataset names ("/group/dataset"): a pattern that does not start with '/' may also match the name
/// without its leading '/'.
bool dataset_match(std::string_view pattern, std::string_view name);

}  // namespace varve::fs
