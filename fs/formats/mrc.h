// MRC2014 and CCP4 maps: a header of 1024 bytes, an extended one, and one array.
// Method: https://www.ccpem.ac.uk/mrc_format/mrc2014.php
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

/// "MAP " and the stamp of a machine.
bool may_be_mrc(const Candidate& candidate);

/// EBADMSG: dimensions that cannot be, or a file shorter than they say. Axes: sections, rows, columns; before them the
/// volume, in a stack of volumes; complex numbers get one more. Modes 3 (complex integers) and 101 (half bytes), and
/// empty maps: no array.
Result<std::optional<Recognised>> recognise_mrc(FileView& file);

}  // namespace varve::fs
