// Arrays to NumPy's files and back.

#include "eadem/io/npy_array.h"

#include "tests/io/files.h"
#include "tests/support/bits.h"

namespace eadem {
namespace {

using io::testing::TemporaryFolder;

// What a file must hold of any array: a transposed one, a scalar, a slice that begins inside, and empty ones.
std::map<std::string, Array> arrays_of(DType dtype) {
  const Array numbers = convert(reshape(arange(12) - 2, {3, 4}), dtype);
  return {{"transposed", transpose(numbers)},
          {"scalar", reshape(slice_axis(reshape(numbers, {12}), 0, {7, 8}), {})},
          {"slice", slice_axis(numbers, 1, {1, 3})},
          {"broadcast", broadcast_to(reshape(slice_axis(numbers, 0, {1, 2}), {4, 1}), {4, 5})},
          {"empty", zeros({0}, dtype)},
          {"empty matrix", transpose(zeros({3, 0}, dtype))}};
}

TEST(NpyArray, EveryDTypeAndLayoutComesBack) {
  const TemporaryFolder folder;
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    const auto arrays = arrays_of(dtype);
    for (const auto& [name, array] : arrays) {
      SCOPED_TRACE(fmt::format("{} {}", name, name_of(dtype)));
      save_npy(folder.path() / "x.npy", array);
      const Array again = load_npy(folder.path() / "x.npy");
      testing::expect_same(again, array);
    }
    for (const bool deflate : {false, true}) {
      save_npz(folder.path() / "x.npz", arrays, deflate);
      testing::expect_same(load_npz(folder.path() / "x.npz"), arrays);
    }
  }
}

TEST(NpyArray, OutlivesItsFile) {
  const TemporaryFolder folder;
  const Array want = normal(random_key(0), {100, 7});
  save_npy(folder.path() / "x.npy", want);
  const Array read = load_npy(folder.path() / "x.npy");
  save_npy(folder.path() / "x.npy", zeros({100, 7}));
  testing::expect_same(read, want);
  std::filesystem::remove(folder.path() / "x.npy");
  testing::expect_same(read, want);
}

TEST(NpyArray, RefusesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW(save_npy(folder.path() / "none" / "x.npy", zeros({2})), FileError);
  EXPECT_THROW(load_npy(folder.path() / "x.npy"), FileError);
  EXPECT_THROW(load_npz(folder.path() / "x.npz"), FileError);
}

}  // namespace
}  // namespace eadem
