#pragma once

#include "eadem/array/array.h"
#include "eadem/io/npy.h"
#include "eadem/ops/ops.h"

// Arrays from and to NumPy's files.

namespace eadem {

/// The array that was read; it shares the memory.
inline Array array_of(const io::NpyArray& read) {
  return {read.buffer, contiguous_view(const_cast<std::byte*>(read.bytes.data()), read.dtype, read.shape)};
}

/// numpy.load of a .npy file. FileError.
inline Array load_npy(const std::filesystem::path& path) {
  return array_of(io::read_npy(path));
}
/// numpy.save. FileError.
inline void save_npy(const std::filesystem::path& path, const Array& x) {
  const Array dense = contiguous(x);
  io::write_npy(path, x.dtype(), x.shape(),
                {dense.view().data, static_cast<std::size_t>(x.elements()) * size_of(x.dtype())});
}
/// numpy.load of a .npz file: all its arrays. FileError.
inline std::map<std::string, Array> load_npz(const std::filesystem::path& path) {
  const io::Npz file = io::Npz::open(path);
  std::map<std::string, Array> all;
  for (const std::string& name : file.names()) all.emplace(name, array_of(file.array(name)));
  return all;
}
/// numpy.savez, or savez_compressed. FileError.
inline void save_npz(const std::filesystem::path& path, const std::map<std::string, Array>& arrays,
                     bool deflate = false) {
  io::NpzWriter writer;
  std::vector<Array> dense;
  for (const auto& [name, x] : arrays) {
    dense.push_back(contiguous(x));
    writer.add(name, x.dtype(), x.shape(),
               {dense.back().view().data, static_cast<std::size_t>(x.elements()) * size_of(x.dtype())});
  }
  writer.write(path, deflate);
}

}  // namespace eadem
