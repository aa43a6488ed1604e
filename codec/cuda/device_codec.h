// Encoding and decoding on a device, whatever it is: the seam between the codec and the plug-in library with the
// kernels (plugin.cu), which is loaded when a program runs, so that one program serves machines with a GPU and without.
#pragma once

#include <functional>
#include <memory>

#include "codec/cuda/support.h"
#include "codec/view_error.h"

namespace varve::codec::cuda {

/// The record of an id; nothing: there is none.
using FindRecord = std::function<std::optional<std::span<const std::byte>>(const RecordId&)>;

/// What was done where.
struct DecodeCounts {
  uint64_t device_bricks = 0;
  uint64_t cpu_bricks = 0;  ///< whose records, or their tile's, are damaged: the CPU says how
};
struct EncodeCounts {
  uint64_t device_tiles = 0;
  uint64_t cpu_tiles = 0;  ///< whether some record is larger than its elements depends on what its lists are packed to
};

/// Works on arrays that why_unsupported() says nothing against. Not thread-safe; one thread after the other may use it.
/// Errors: ENODEV with a sentence where the device failed and the work can be done on the CPU instead; others are those
/// of the CPU's codec.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  /// "NVIDIA H200", ...
  virtual std::string name() const = 0;
  /// Decodes tiles, which together are the box `into`, into `out`, its elements in C order, aligned as they are. Points
  /// of levels below `finest` are interpolated.
  virtual Status decode(const Settings& settings, const std::vector<uint64_t>& tiles, const FindRecord& find,
                        uint8_t finest, const Box& into, std::byte* out, DecodeCounts& counts) = 0;
  /// Encodes tiles that lie in the box `from`, whose elements `data` has: of each the records that codec::encode_tile()
  /// gives, byte for byte. `errors`: null, or what is set to the errors of each tile's views, as it gives them.
  virtual Result<std::vector<std::vector<Record>>> encode(const Settings& settings, const std::vector<uint64_t>& tiles,
                                                          const Box& from, const std::byte* data, EncodeCounts& counts,
                                                          std::vector<WorkErrors>* errors = nullptr) = 0;
};

/// Where the codec is to work.
struct DeviceChoice {
  enum class Kind : uint8_t {
    automatic,  ///< on the first device that works, if there is one
    cpu,
    cuda,  ///< on device `number`
  };
  Kind kind = Kind::automatic;
  int number = 0;
};
/// "auto", "cpu", "cuda" or "cuda:N". EINVAL names what would be accepted.
Result<DeviceChoice> parse_device(std::string_view text);

/// Loads the plug-in library `path` and opens device `number`. Errors: ENODEV with a sentence: there is no such library
/// or device, it is of another build, or the self-test failed.
Result<std::unique_ptr<DeviceCodec>> open_device(const std::string& path, int number);

/// Whether a device gives the CPU's bytes for some small arrays; ENODEV: it does not.
Status self_test(DeviceCodec& device);

/// What a plug-in library and the program that loads it must agree on: settings and records are passed as they are in
/// memory.
std::string plugin_abi();

/// The function of a plug-in library that opens device `number`: null and a text in `error` where that fails.
using OpenPlugin = DeviceCodec* (*)(const char* abi, int number, char* error, size_t error_size);
inline constexpr const char* kOpenPlugin = "varve_cuda_open";

}  // namespace varve::codec::cuda
