// What torch.save writes (.pt, .pth) since version 1.6: a ZIP archive of a pickle and of storages as they lie in
// memory.
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

/// A ZIP archive whose first member looks like the pickle or a storage.
bool may_be_pytorch(const Candidate& candidate);

/// The storages that are stored, "/data/0" and so on, with the shape of a tensor that is all of one. EBADMSG: an
/// archive that does not parse. Nothing: it has no data.pkl. All are kept exact, for the archive has a checksum of each
/// member.
Result<std::optional<Recognised>> recognise_pytorch(FileView& file);

}  // namespace varve::fs
