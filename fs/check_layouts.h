// The part of `varve fsck` that knows what files consist of: notes of staged data and of unlinked files, layouts, and
// the records that their arrays and streams need.
#pragma once

#include "index/check.h"

namespace varve::fs {

/// Everything, in order: database, names, notes, objects, layouts. What is found goes to the report that `store` was
/// opened with. An error: the check itself could not go on.
Status check_store(index::StoreCheck& store);

}  // namespace varve::fs
