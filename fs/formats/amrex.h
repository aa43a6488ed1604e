// AMReX: the boxes ("FABs") of the data files of plotfiles and checkpoints (Cell_D_00000 and the like), one after the
// other, each a line of text and its numbers.
// Method: https://amrex-codes.github.io/amrex/docs_html/IO.html; Src/Base/AMReX_FArrayBox.cpp and AMReX_FPC.cpp there.
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

inline constexpr std::string_view kFabMagic = "FAB ((";

/// Nothing: the file does not begin with a box of IEEE floats. A component of all boxes of one shape is an array: the
/// boxes are its chunks, in the order of the file, along its first axis. (Components are quantities of their own, and a
/// bound relative to the range of them all would wipe out the small ones.) It is named after shape and component:
/// "/16x16x16/4". What follows the last whole box stays bytes.
Result<std::optional<Recognised>> recognise_amrex(FileView& file);

}  // namespace varve::fs
