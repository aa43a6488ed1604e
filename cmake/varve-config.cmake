# find_package(varve): the libraries varve::varve_codec (arrays <-> records) and varve::varve_index (the store).
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(PkgConfig)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
include(${CMAKE_CURRENT_LIST_DIR}/varve-targets.cmake)
