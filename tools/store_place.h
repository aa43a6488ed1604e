// Commands on a store, whether it is mounted or not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "codec/result.h"

namespace varve::tools {

/// A store, and where it is mounted for writing.
struct StorePlace {
  std::string store;                      ///< absolute
  std::optional<std::string> mountpoint;  ///< none: nobody has it open for writing
};

/// `path`: of a store, or anything in a mount. ENOENT with a sentence: it is neither. EBUSY: another program than a
/// mount seen from here has the store open.
Result<StorePlace> find_store(const std::string& path);

/// Writes a control file of a mount: in effect when this returns. `who`: may open it, a sentence. `refused`: the error
/// for the errno that the mount gave.
Status write_control_file(const std::string& path, std::string_view text, std::string_view who,
                          const std::function<Error(int code)>& refused);

}  // namespace varve::tools
