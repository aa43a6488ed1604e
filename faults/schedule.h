// A schedule: rules that say what goes wrong, where, and when. Written in TOML (docs/FAULTS.md); immutable once parsed.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codec/result.h"
#include "codec/types.h"
#include "faults/words.h"

namespace varve::faults {

/// [begin, end), bytes of a file.
using ByteRange = std::pair<uint64_t, uint64_t>;

enum class BitClass : uint8_t { any, sign, exponent, mantissa };
inline constexpr std::array<std::string_view, 4> kBitClassNames = {"any", "sign", "exponent", "mantissa"};
enum class Cut : uint8_t { byte, sector, page };
inline constexpr std::array<std::string_view, 3> kCutNames = {"byte", "sector", "page"};
enum class Aftermath : uint8_t { go_on, dead, crash };
inline constexpr std::array<std::string_view, 3> kAftermathNames = {"continue", "dead", "crash"};
enum class Spread : uint8_t { fixed, uniform, exponential, pareto };
inline constexpr std::array<std::string_view, 4> kSpreadNames = {"fixed", "uniform", "exponential", "pareto"};

/// What a model needs to know; each uses a few.
struct Parameters {
  uint64_t count = 1;      ///< bit_flip: bits; byte_corrupt: bytes
  bool scattered = false;  ///< bit_flip, byte_corrupt: anywhere, instead of next to each other
  BitClass bits = BitClass::any;
  std::optional<uint64_t> size;       ///< bytes of a block, page, sector, or erase block
  std::optional<uint64_t> alignment;  ///< of it in the file; default: its size
  uint8_t fill = 0;
  bool rest_old = true;                       ///< what did not persist reads as before; else as `fill`
  bool grows = false;                         ///< a write past the end that does not persist moves the end all the same
  std::vector<double> kept = {0.375, 0.875};  ///< shorn_write: one of these is drawn
  Cut cut = Cut::sector;
  uint64_t parts = 2;
  std::vector<uint64_t> persist;  ///< torn_write: which parts, or which writes of the run; empty: drawn
  uint64_t run = 1;               ///< torn_write: so many writes, whole each
  std::optional<int64_t> distance;
  uint64_t window = 1;
  bool random_subset = false;  ///< power_cut: each unsynced write is lost or not; else all are
  bool any_order = false;      ///< power_cut: what is kept is applied in random order
  std::optional<Aftermath> then;
  bool before = false;  ///< crash, kill_caller: before the operation is done
  std::vector<int> codes;
  std::vector<double> weights;   ///< of codes; empty: equal
  double milliseconds = 100;     ///< delay: the value, the mean, or the least (pareto)
  double most_milliseconds = 0;  ///< 0: 100 times `milliseconds`
  Spread spread = Spread::fixed;
  std::optional<uint64_t> bytes;  ///< short_*: transferred; enospc_at: written before the disk is full
  double base_rate = 0;           ///< read_disturb, retention: probability that a bit is wrong
  double growth = 0;              ///< a read of the erase block, or an hour
  double speed = 1;               ///< retention: hours of age for each real hour
  uint64_t corrected = 0;         ///< wrong bits in a page that the drive corrects
};

struct Target {
  std::bitset<kOps> operations;
  std::string path = "**";
  std::vector<ByteRange> ranges;  ///< of the file; empty: all of it
  std::string process;            ///< glob over the caller's command name; empty: any
  std::optional<int> pid;
  std::string region;     ///< "bytes", "array" or empty
  std::string dataset;    ///< glob over an array's name
  std::string structure;  ///< glob over an HDF5 structure's name (faults/structure.h)
  std::bitset<kFileKindNames.size()> kinds;
  std::optional<uint64_t> level, brick, object;
  std::optional<unsigned> byte;  ///< of an element, 0: least significant
  std::optional<codec::DType> element;
  bool big_endian = false;
  uint64_t element_base = 0;  ///< offset in the file of some element
};

struct Trigger {
  std::vector<uint64_t> nth;  ///< sorted, from 1
  uint64_t every = 0;
  double probability = 1;
  double after = 0;  ///< seconds since the schedule was armed
  std::string from_mark, to_mark;
  uint64_t limit = UINT64_MAX;
  bool count_per_file = false;
};

struct Rule {
  std::string name;
  size_t line = 0;
  Seam seam = Seam::app;
  Model model = Model::count;
  Parameters parameters;
  Target target;
  Trigger trigger;
  /// Does it need to know what lies where in the file?
  bool needs_structure() const {
    return !target.region.empty() || !target.dataset.empty() || !target.structure.empty();
  }
  /// Does it aim at some bits of elements?
  bool aims_at_bits() const { return target.byte.has_value() || parameters.bits != BitClass::any; }
  /// The bits of an element that it may aim at, by significance, [first, last). Nothing: such an element has none of
  /// them (an integer has no exponent, an f16 no byte 3).
  std::optional<std::pair<uint64_t, uint64_t>> bits_of(codec::DType element) const;
};

struct Schedule {
  uint64_t seed = 0;
  bool seed_given = false;
  bool bypass_page_cache = true;
  std::vector<Rule> rules;
  std::string text;  ///< what was parsed

  static constexpr size_t kMostRules = 100'000;
  /// EINVAL; the text has `file`, the line, the reason and a remedy. Without a seed one is drawn from the operating
  /// system.
  static Result<Schedule> parse(std::string_view text, std::string_view file = "schedule");
  /// The same for the beginning of a text, whole lines: an error only if nothing that may follow could make it right.
  static Status check_start(std::string_view text);
};

/// A program's word for where it is: letters, digits and any other visible characters, no spaces, at most 255 bytes.
/// EINVAL with a sentence.
Status check_mark(std::string_view name);

/// May this model act on that kind of operation?
bool acts_on(Model model, Op op);
/// Changes bytes of a file's content, and so can aim at parts of it.
bool changes_content(Model model);

}  // namespace varve::faults
