// The directory of a ZIP archive, ZIP64 included.
// Method: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

struct ZipMember {
  std::string name;
  uint64_t header = 0;  ///< offset of its local header
  uint64_t size = 0;    ///< bytes as they lie in the file
  bool stored = false;  ///< neither compressed nor encrypted
};

/// The name of the first member, as far as it lies in the file's start; "": this is no archive.
std::string_view first_zip_member(const Candidate& candidate);

/// EBADMSG: no directory, or one that contradicts the file's size.
Result<std::vector<ZipMember>> read_zip_directory(FileView& file);

/// Where the member's bytes begin; all of them lie in the file. EBADMSG: its local header is not there.
Result<uint64_t> zip_data_offset(FileView& file, const ZipMember& member);

}  // namespace varve::fs
