// All files of a store as one text that does not tell which store it is: names, attributes, and of each content a
// digest. Two stores with the same manifest have the same files, bit for bit as stored.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "index/index.h"

namespace varve::tools {

/// XXH3-128 of an object's layout and of its records' keys, lengths and checksums.
using Digest = std::array<char, 16>;

Result<Digest> digest_of(index::Index& index, index::ObjectId object);
/// XXH3-128 of some bytes.
Digest digest_of(std::string_view bytes);

struct Manifest {
  std::string text;
  std::map<Digest, index::ObjectId> objects;  ///< every content that a file has, at least
};

/// Directories breadth first, the entries of each by name. Without times of access.
Result<Manifest> manifest_of(index::Index& index);

/// Makes the files that the manifest tells of those that the store has, in one batch, on the disk when this returns.
/// `objects`: published ones, or `fresh` with their layouts, which the batch publishes. EBADMSG: the text is no
/// manifest, or speaks of other objects.
Status replace_tree(index::Index& index, const Manifest& manifest, const std::map<index::ObjectId, std::string>& fresh);

/// ENOTEMPTY with a sentence: the store holds data that is not sealed.
Status check_sealed(index::Index& index);

}  // namespace varve::tools
