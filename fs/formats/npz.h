// NumPy's .npz: a ZIP archive of .npy files.
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

/// A ZIP archive whose first member is a .npy file.
bool may_be_npz(const Candidate& candidate);

/// The arrays of members that are stored, named "/" and the member's name without ".npy". EBADMSG: an archive that does
/// not parse. All are kept exact, for the archive has a checksum of each member. Compressed members, and those whose
/// header does not parse, are none.
Result<std::optional<Recognised>> recognise_npz(FileView& file);

}  // namespace varve::fs
