#include "eadem/io/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "eadem/io/mapped_file.h"

namespace eadem::io {
namespace {

EVP_MD_CTX* context(void* state) {
  return static_cast<EVP_MD_CTX*>(state);
}

void require(int succeeded) {
  if (succeeded != 1) fail<Error>("[sha256] OpenSSL refused: no SHA-256 in this library");
}

}  // namespace

void Sha256::Free::operator()(void* state) const {
  EVP_MD_CTX_free(context(state));
}

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  if (!state_) throw std::bad_alloc();
  require(EVP_DigestInit_ex(context(state_.get()), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context(state_.get()), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest;
  require(EVP_DigestFinal_ex(context(state_.get()), digest.data(), nullptr));
  require(EVP_DigestInit_ex(context(state_.get()), EVP_sha256(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  // The pages are given back as they are hashed: the digest of a model must not count as its memory.
  const auto file = MappedFile::open(path);
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  Sha256 hash;
  for (std::size_t at = 0; at < file->bytes().size(); at += kPiece) {
    const auto piece = file->bytes().subspan(at, std::min(kPiece, file->bytes().size() - at));
    hash.update(piece);
    file->drop_pages(piece);
  }
  return hash.hex();
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace eadem::io
