// What the index costs: creates, small sealed files, lookups, listings, records.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "index/index.h"

namespace {

using namespace varve::index;  // NOLINT: a program of one file

struct Bench {
  Bench() {
    std::string name = (std::filesystem::temp_directory_path() / "varve-bench-XXXXXX").string();
    path = ::mkdtemp(name.data());
    auto opened = Index::open(path + "/store", IndexOptions());
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().text.c_str());
      std::exit(1);
    }
    index = *std::move(opened);
  }
  ~Bench() {
    index.reset();
    std::filesystem::remove_all(path);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Dentry create() {
    Inode inode;
    inode.number = index->new_inode_number();
    inode.mode = S_IFREG | 0644;
    Batch batch;
    batch.put_inode(inode);
    Dentry entry{"file-" + std::to_string(inode.number), inode.number, S_IFREG, index->new_cookie()};
    batch.put_dentry(kRootInode, entry);
    check(index->commit(std::move(batch), Durability::buffered));
    return entry;
  }

  static void check(const varve::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.error().text.c_str());
      std::exit(1);
    }
  }

  std::string path;
  std::unique_ptr<Index> index;
};

void create(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.create());
  }
}
BENCHMARK(create);

void create_and_unlink(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) {
    const Dentry entry = bench.create();
    Batch batch;
    batch.erase_dentry(kRootInode, entry);
    batch.erase_inode(entry.inode);
    Bench::check(bench.index->commit(std::move(batch), Durability::buffered));
  }
}
BENCHMARK(create_and_unlink);

/// A create, then a sealed content of one record of so many bytes.
void small_sealed_file(benchmark::State& state) {
  Bench bench;
  const std::vector<std::byte> record(static_cast<size_t>(state.range(0)), std::byte{7});
  for (auto _ : state) {
    const Dentry entry = bench.create();
    auto writer = bench.index->begin_object();
    Bench::check((*writer)->put({0, 0, 0}, record));
    Inode inode;
    inode.number = entry.inode;
    inode.object = (*writer)->object();
    Batch batch;
    batch.put_inode(inode);
    batch.publish(inode.object, "layout");
    Bench::check(bench.index->commit(std::move(batch), Durability::buffered));
  }
}
BENCHMARK(small_sealed_file)->Arg(1000);

void lookup(benchmark::State& state) {
  Bench bench;
  std::vector<std::string> names;
  for (int i = 0; i < 20000; ++i) {
    names.push_back(bench.create().name);
  }
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.index->lookup(kRootInode, names[at = (at + 7919) % names.size()]));
  }
}
BENCHMARK(lookup);

void list(benchmark::State& state) {
  Bench bench;
  for (int64_t i = 0; i < state.range(0); ++i) {
    bench.create();
  }
  for (auto _ : state) {
    uint64_t after = 0;
    for (bool more = true; more;) {
      size_t taken = 0;
      more = false;
      Bench::check(bench.index->list(kRootInode, after, [&](const Dentry& entry) {
        if (taken++ == 200) {
          more = true;
          return false;
        }
        after = entry.cookie;
        return true;
      }));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(list)->Arg(10000)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);

void put_records(benchmark::State& state) {
  Bench bench;
  const std::vector<std::byte> record(static_cast<size_t>(state.range(0)), std::byte{7});
  auto writer = bench.index->begin_object();
  uint64_t brick = 0;
  for (auto _ : state) {
    Bench::check((*writer)->put({1, 0, brick++}, record));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(put_records)->Arg(1000)->Arg(100000)->Iterations(5000);

void get_records(benchmark::State& state) {
  Bench bench;
  const std::vector<std::byte> record(static_cast<size_t>(state.range(0)), std::byte{7});
  auto writer = bench.index->begin_object();
  for (uint64_t brick = 0; brick < 2000; ++brick) {
    Bench::check((*writer)->put({1, 0, brick}, record));
  }
  Batch batch;
  batch.publish((*writer)->object(), "");
  Bench::check(bench.index->commit(std::move(batch), Durability::synced));
  uint64_t brick = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.index->record((*writer)->object(), {1, 0, brick = (brick + 7919) % 2000}));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(get_records)->Arg(1000)->Arg(100000);

}  // namespace

BENCHMARK_MAIN();
